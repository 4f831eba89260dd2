// SPDX-License-Identifier: GPL-2.0-or-later
//! Sockets whose packets are copied, and the control messages (cmsg(3)) in which the kernel describes a packet.

use std::io;

use libc::{c_void, cmsghdr, msghdr, sockaddr_ll, timespec, tpacket_auxdata};

use crate::packet::{self, Origin, Packet};
use crate::socket::Socket;

/// Room for control messages: a timestamp and a PACKET_AUXDATA message.
pub const CONTROL_BYTES: usize = 128;

/// Enables timestamps and PACKET_AUXDATA (lengths, VLAN tags) on the socket, and sets its receive buffer to
/// `buffer_bytes`, or to at most net.core.rmem_max without CAP_NET_ADMIN.
pub fn prepare(socket: &Socket, buffer_bytes: usize) -> io::Result<()> {
    let size = buffer_bytes.min(i32::MAX as usize) as i32;
    // SO_RCVBUFFORCE exceeds the machine's limit, but needs CAP_NET_ADMIN.
    socket
        .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size)
        .or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &size))?;
    socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
    socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)
}

/// Assembles a packet from a received message, its address and its bytes.
///
/// # Safety
/// The kernel has filled the message's control part, which is aligned to 8 bytes.
pub unsafe fn packet<'a>(message: &msghdr, address: &sockaddr_ll, bytes: &'a [u8]) -> Packet<'a> {
    // SAFETY: as the caller promises.
    let (time_ns, aside) = unsafe { control(message) };
    Packet {
        time_ns,
        original: aside.map_or(bytes.len() as u32, |aside| aside.tp_len),
        bytes,
        tag: aside
            .and_then(|aside| packet::tag(aside.tp_status, aside.tp_vlan_tci, aside.tp_vlan_tpid)),
        origin: Origin::from(address),
        comment: "",
    }
}

/// Returns the timestamp (ns since 1970; 0 if there is none) and the PACKET_AUXDATA message of a packet.
///
/// # Safety
/// As for `packet`.
unsafe fn control(message: &msghdr) -> (u64, Option<tpacket_auxdata>) {
    let (mut time_ns, mut aside) = (0, None);
    // SAFETY: the macros keep within msg_controllen; the data of these kinds are these types, not always aligned.
    unsafe {
        let mut at: *const cmsghdr = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            let data: *const c_void = libc::CMSG_DATA(at).cast();
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = data.cast::<timespec>().read_unaligned();
                    time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    aside = Some(data.cast::<tpacket_auxdata>().read_unaligned());
                }
                _ => (),
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    (time_ns, aside)
}
