// SPDX-License-Identifier: GPL-2.0-or-later
//! Sockets whose packets are copied, and what the kernel tells beside a packet in control messages (cmsg(3)).

use std::io;

use libc::{c_void, cmsghdr, msghdr, sockaddr_ll, timespec, tpacket_auxdata};

use crate::packet::{self, Origin, Packet};
use crate::socket::Socket;

/// Room for control messages: a time and what PACKET_AUXDATA tells.
pub const CONTROL_BYTES: usize = 128;

/// Has the kernel tell times, lengths and tags, and keep so many bytes until they are taken.
pub fn prepare(socket: &Socket, buffer_bytes: usize) -> io::Result<()> {
    let size = buffer_bytes.min(i32::MAX as usize) as i32;
    // Beyond the machine's limit only with CAP_NET_ADMIN.
    socket
        .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size)
        .or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &size))?;
    socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
    socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)
}

/// A packet of its parts.
///
/// # Safety
/// The message's control part is one that the kernel has filled, aligned to 8 bytes.
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

/// The time and the kernel's words beside a packet.
///
/// # Safety
/// As of `packet`.
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
