// SPDX-License-Identifier: GPL-2.0-or-later
//! Queries the kernel about an interface (netdevice(7)).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Current state of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub index: u32,
    /// Hardware type (ARPHRD_*).
    pub hardware: u16,
    pub is_up: bool,
}

/// Returns the result of a system call, or errno as an error if the result is negative.
pub(crate) fn checked(value: i32) -> io::Result<i32> {
    match value {
        0.. => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn plain_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        checked(libc::socket(libc::AF_UNIX, kind, 0)).map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

/// Creates the argument of an ioctl(2) about an interface. Fails with ENODEV if the name is too long.
fn request(name: &CStr) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = name.to_bytes_with_nul();
    if name.len() > request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

/// Returns the current state of the named interface, without privileges; ENODEV if there is none.
pub fn look_up(name: &CStr) -> io::Result<Seen> {
    look(plain_socket()?.as_raw_fd(), name)
}

/// Returns the current state of the named interface through an open socket; ENODEV if there is none.
pub fn look(socket: RawFd, name: &CStr) -> io::Result<Seen> {
    let mut request = request(name)?;
    // SAFETY: each call reads and writes one ifreq, which outlives it, and fills the field that is read next.
    unsafe {
        checked(libc::ioctl(socket, libc::SIOCGIFINDEX as _, &mut request))?;
        let index = request.ifr_ifru.ifru_ifindex as u32;
        checked(libc::ioctl(socket, libc::SIOCGIFHWADDR as _, &mut request))?;
        let hardware = request.ifr_ifru.ifru_hwaddr.sa_family;
        checked(libc::ioctl(socket, libc::SIOCGIFFLAGS as _, &mut request))?;
        let flags = i32::from(request.ifr_ifru.ifru_flags);
        Ok(Seen {
            index,
            hardware,
            is_up: flags & libc::IFF_UP != 0,
        })
    }
}

/// Returns the number of receive queues of an interface. Fails with EOPNOTSUPP if the interface does not report it.
pub fn receive_queues(name: &CStr) -> io::Result<u32> {
    /// struct ethtool_channels (<linux/ethtool.h>); the maximum numbers are not used.
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        receiving: u32,
        sending: u32,
        other: u32,
        combined: u32,
    }
    const GET_CHANNELS: u32 = 0x3c;
    let socket = plain_socket()?;
    let mut request = request(name)?;
    let mut channels = Channels {
        command: GET_CHANNELS,
        ..Channels::default()
    };
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the call reads one ifreq and writes to the structure that it points to; both outlive it.
    unsafe {
        let fd = socket.as_raw_fd();
        checked(libc::ioctl(fd, libc::SIOCETHTOOL as _, &mut request))?;
    }
    Ok(channels.receiving + channels.combined)
}
