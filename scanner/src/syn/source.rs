// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the source address that the kernel would choose, which the checksum needs, by a connected UDP socket that sends
//! nothing. Routes cover networks, so in large sets one address represents its neighbours.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use crate::targets::set::Set;
use crate::targets::Address;

/// Maximum number of route queries; in large sets a query covers 256 addresses or more.
const MOST_QUESTIONS: u64 = 4096;
const FEWEST_TOGETHER: u64 = 256;

pub struct Sources {
    together: u64,
    /// Source address of each group of consecutive members of the target set; None without a route.
    groups: Vec<Option<IpAddr>>,
}

impl Sources {
    pub fn new(targets: &Set) -> io::Result<Sources> {
        // Small sets have a query per member, since they may span several networks.
        let together = match targets.len() {
            len if len <= MOST_QUESTIONS => 1,
            len => len.div_ceil(MOST_QUESTIONS).max(FEWEST_TOGETHER),
        };
        let groups = (0..targets.len())
            .step_by(together as usize)
            .map(|member| source(targets.get(member)));
        Ok(Sources {
            together,
            groups: groups.collect::<io::Result<_>>()?,
        })
    }

    /// Returns the source address for a member of the set, by its number; None without a route.
    pub fn from(&self, member: u64) -> Option<IpAddr> {
        self.groups[(member / self.together) as usize]
    }
}

fn source(to: Address) -> io::Result<Option<IpAddr>> {
    let (any, to): (SocketAddr, SocketAddr) = match to.ip {
        IpAddr::V4(ip) => (([0, 0, 0, 0], 0).into(), (ip, 9).into()),
        IpAddr::V6(ip) => (
            ([0; 16], 0).into(),
            SocketAddrV6::new(ip, 9, 0, to.scope).into(),
        ),
    };
    let socket = UdpSocket::bind(any)?;
    match socket.connect(to) {
        Ok(()) => Ok(Some(socket.local_addr()?.ip())),
        Err(error) => match error.kind() {
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => Ok(None),
            io::ErrorKind::PermissionDenied | io::ErrorKind::AddrNotAvailable => Ok(None),
            _ => Err(error),
        },
    }
}
