// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses in the kernel's format.

use std::net::IpAddr;

use crate::targets::{Address, Family};

/// A socket address with room for sockaddr_in6; a sockaddr_in uses its first bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sockaddr(libc::sockaddr_in6);

const _: () = assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_in6>());

impl Sockaddr {
    /// Address of the family AF_UNSPEC. connect(2) with it dissolves (resets) the socket's connection.
    pub const NOBODY: Sockaddr = Sockaddr(libc::sockaddr_in6 {
        sin6_family: libc::AF_UNSPEC as u16,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    });

    pub fn new(address: Address, port: u16) -> Sockaddr {
        let mut made = Sockaddr::NOBODY;
        match address.ip {
            IpAddr::V6(ip) => {
                made.0.sin6_family = libc::AF_INET6 as u16;
                made.0.sin6_port = port.to_be();
                made.0.sin6_addr.s6_addr = ip.octets();
                made.0.sin6_scope_id = address.scope;
            }
            IpAddr::V4(ip) => {
                // As in sockaddr_in: family, port, and the address at the offset of sockaddr_in6's flow.
                made.0.sin6_family = libc::AF_INET as u16;
                made.0.sin6_port = port.to_be();
                made.0.sin6_flowinfo = u32::from_ne_bytes(ip.octets());
            }
        }
        made
    }

    pub fn family(&self) -> Family {
        match i32::from(self.0.sin6_family) {
            libc::AF_INET => Family::V4,
            _ => Family::V6,
        }
    }

    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.0).cast()
    }

    pub fn len(&self) -> libc::socklen_t {
        let len = match i32::from(self.0.sin6_family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => size_of::<libc::sockaddr>(),
        };
        len as libc::socklen_t
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_was_meant() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address {
            ip: "127.0.0.1".parse().unwrap(),
            scope: 0,
        };
        let to = Sockaddr::new(address, port);
        // SAFETY: connect(2) reads the address, whose length is its own; the descriptor is closed once.
        let result = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            let result = libc::connect(fd, to.as_ptr(), to.len());
            libc::close(fd);
            result
        };
        assert_eq!(result, 0);
        assert_eq!(to.family(), Family::V4);
    }
}
