// SPDX-License-Identifier: GPL-2.0-or-later
//! A packet socket (packet(7)) and its options.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::link::{Interface, Link};
use crate::look::{checked, look, Seen};

/// Counts of accepted and dropped packets since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that passed the filter, including dropped ones.
    pub packets: u64,
    /// Packets that the kernel dropped for lack of room.
    pub drops: u64,
}

pub struct Socket(OwnedFd);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    /// Opens a socket that receives nothing yet. Needs CAP_NET_RAW.
    pub fn new(link: Link) -> io::Result<Socket> {
        let kind = match link {
            Link::Cooked => libc::SOCK_DGRAM,
            Link::Ethernet | Link::Raw => libc::SOCK_RAW,
        };
        // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on.
        let socket = unsafe {
            let kind = kind | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, kind, 0))?)
        };
        Ok(Socket(socket))
    }

    /// Sets an option; the value has the layout of the option's kernel structure.
    pub(crate) fn set<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        set(self.as_raw_fd(), level, option, value)
    }

    /// Replaces the filter. Each packet is tested by either the old or the new filter.
    pub fn filter(&self, steps: &[libc::sock_filter]) -> io::Result<()> {
        filter(self.as_raw_fd(), steps)
    }

    /// Accepts no more packets; waiting packets stay readable.
    pub fn shut(&self) -> io::Result<()> {
        shut(self.as_raw_fd())
    }

    /// Receives the packets of an interface from now on. On loopback each packet passes twice, and only the incoming
    /// copy is received.
    /// - promiscuous: true to set the interface to promiscuous mode; ignored for all interfaces (index 0).
    pub fn bind(&self, interface: &Interface, promiscuous: bool) -> io::Result<()> {
        if interface.is_loopback {
            self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        }
        self.bind_for(interface.index, libc::ETH_P_ALL as u16)?;
        match promiscuous && interface.index != 0 {
            true => self.listen_to_all(interface.index),
            false => Ok(()),
        }
    }

    /// Selects an interface to send by; receives nothing.
    pub fn bind_to_send(&self, interface: u32) -> io::Result<()> {
        self.bind_for(interface, 0)
    }

    /// Binds to an interface.
    /// - protocol: EtherType to receive; 0 means none.
    fn bind_for(&self, interface: u32, protocol: u16) -> io::Result<()> {
        // SAFETY: sockaddr_ll is plain data for which all zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: bind(2) reads the address by its length.
        checked(unsafe { libc::bind(self.as_raw_fd(), (&raw const address).cast(), len) })
            .map(|_| ())
    }

    /// Sends a frame, with its link layer header, by one write: the kernel sends it whole, or the call fails.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: write(2) reads the frame by its length.
        let sent = unsafe { libc::write(self.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the interface to promiscuous mode while the socket is open.
    pub fn listen_to_all(&self, interface: u32) -> io::Result<()> {
        // SAFETY: packet_mreq is plain data for which all zeros is valid.
        let mut member: libc::packet_mreq = unsafe { std::mem::zeroed() };
        member.mr_ifindex = interface as i32;
        member.mr_type = libc::PACKET_MR_PROMISC as u16;
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
    }

    /// Shares an interface's packets with the other sockets of the group, by flow hash.
    pub fn join(&self, group: u16) -> io::Result<()> {
        let value = libc::PACKET_FANOUT_HASH << 16 | u32::from(group);
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &value)
    }

    /// Returns the kernel's counts since the last call.
    pub fn statistics(&self) -> io::Result<Statistics> {
        // SAFETY: all zeros is a valid tpacket_stats_v3, and getsockopt(2) writes at most its length.
        unsafe {
            let mut stats: libc::tpacket_stats_v3 = std::mem::zeroed();
            let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            get(self.as_raw_fd(), level, option, &mut stats)?;
            Ok(Statistics {
                packets: u64::from(stats.tp_packets),
                drops: u64::from(stats.tp_drops),
            })
        }
    }

    /// Waits until data is readable, a signal arrives, or `limit_ms` have passed. Fails with the socket's pending
    /// error.
    pub fn wait(&self, limit_ms: i32) -> io::Result<()> {
        wait(self.as_raw_fd(), limit_ms)
    }

    /// Returns the current state of the named interface; ENODEV if there is none.
    pub fn look(&self, name: &CStr) -> io::Result<Seen> {
        look(self.as_raw_fd(), name)
    }
}

fn filter(socket: RawFd, steps: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Accepts no more packets on any kind of socket; waiting packets stay readable.
pub(crate) fn shut(socket: RawFd) -> io::Result<()> {
    filter(
        socket,
        &[libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: 0,
        }],
    )
}

/// Sets an option of any kind of socket.
pub(crate) fn set<T>(socket: RawFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (at, len) = ((&raw const *value).cast(), size_of::<T>() as u32);
    // SAFETY: setsockopt(2) reads the value, which outlives the call, by its own length.
    checked(unsafe { libc::setsockopt(socket, level, option, at, len) }).map(|_| ())
}

/// Reads an option of any kind of socket.
///
/// # Safety
/// Every content of `value` must be valid.
pub(crate) unsafe fn get<T>(
    socket: RawFd,
    level: i32,
    option: i32,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    let at = (&raw mut *value).cast();
    // SAFETY: getsockopt(2) writes at most `len` bytes, the value's own size.
    checked(unsafe { libc::getsockopt(socket, level, option, at, &mut len) }).map(|_| ())
}

/// Waits until data is readable, a signal arrives, or `limit_ms` have passed; returns Ok in all three cases. Fails with
/// the socket's pending error, such as ENETDOWN of a packet socket: once, when its interface goes down or away.
pub(crate) fn wait(socket: RawFd, limit_ms: i32) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: socket,
        events: libc::POLLIN | libc::POLLERR,
        revents: 0,
    };
    // SAFETY: poll(2) reads and writes one pollfd, which outlives the call.
    let ready = unsafe { libc::poll(&mut poll, 1, limit_ms) };
    if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        return Err(io::Error::last_os_error());
    }
    match poll.revents & libc::POLLERR {
        0 => Ok(()),
        _ => noted(socket),
    }
}

/// Fails with the socket's pending error, if there is one, which the kernel then clears.
pub(crate) fn noted(socket: RawFd) -> io::Result<()> {
    let mut error = 0i32;
    // SAFETY: every i32 is valid.
    unsafe { get(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)? };
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
