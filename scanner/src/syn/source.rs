// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the source address that the kernel would choose, which the checksum needs, by a connected UDP socket that
//! sends nothing. Routes cover networks, so in large sets one address represents its neighbours.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use crate::targets::set::Set;
use crate::targets::Address;

/// Maximum number of route queries for a set with one range; each further range adds at most one.
const MOST_QUESTIONS: u64 = 4096;
/// Minimum number of addresses that a query covers in large sets; the last query of a range may cover fewer.
const FEWEST_TOGETHER: u64 = 256;

/// Consecutive members of one range of the target set, which share a route query.
struct Group {
    /// Number of the first member in the target set.
    first: u64,
    /// Source address for packets to the members; None without a route.
    source: Option<IpAddr>,
}

pub struct Sources {
    /// All groups, by the number of their first member.
    groups: Vec<Group>,
}

impl Sources {
    pub fn new(targets: &Set) -> io::Result<Sources> {
        let group = |first| {
            let found = source(targets.get(first));
            found.map(|source| Group { first, source })
        };
        let groups = firsts(targets).into_iter().map(group);
        Ok(Sources {
            groups: groups.collect::<io::Result<_>>()?,
        })
    }

    /// Returns the source address for a member of the set, by its number; None without a route.
    pub fn from(&self, member: u64) -> Option<IpAddr> {
        let after = self.groups.partition_point(|group| group.first <= member);
        self.groups[after - 1].source
    }
}

/// Returns the number of each group's first member, in order. No group exceeds a range of the set, since the next range
/// may have another family or interface, or lie in another network.
fn firsts(targets: &Set) -> Vec<u64> {
    // Small sets have a query per member, since they may span several networks.
    let together = match targets.len() {
        len if len <= MOST_QUESTIONS => 1,
        len => len.div_ceil(MOST_QUESTIONS).max(FEWEST_TOGETHER),
    };
    let mut firsts = Vec::new();
    let mut start = 0;
    for range in targets.ranges() {
        let end = start + (range.last - range.first + 1) as u64;
        firsts.extend((start..end).step_by(together as usize));
        start = end;
    }
    firsts
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{number, Family, Range};

    fn range(family: Family, scope: u32, first: u128, len: u128) -> Range {
        let last = first + len - 1;
        Range {
            family,
            scope,
            first,
            last,
        }
    }

    fn set(len: u128) -> Set {
        let ranges = [
            range(Family::V4, 0, 0x0a00_0000, len),
            range(Family::V4, 0, 0x0b00_0000, 10),
            range(Family::V6, 2, 0xfe80 << 112, len),
            range(Family::V6, 3, 0xfe90 << 112, 10),
        ];
        Set::new(ranges).unwrap()
    }

    #[test]
    fn a_source_is_that_of_the_same_range() {
        let targets = set(5000);
        let group = |first| Group {
            first,
            source: Some(targets.get(first).ip),
        };
        let groups: Vec<Group> = firsts(&targets).into_iter().map(group).collect();
        assert_eq!(groups.len(), 20 + 1 + 20 + 1);
        let sources = Sources { groups };
        let range_of = |ip| {
            let (family, value) = number(ip);
            let has = |range: &Range| range.family == family && range.last >= value;
            targets.ranges().iter().position(has)
        };
        for member in 0..targets.len() {
            let source = sources.from(member).unwrap();
            let to = targets.get(member).ip;
            assert_eq!(range_of(source), range_of(to), "{source} {to}");
        }
    }

    #[test]
    fn members_of_small_sets_are_queried_one_by_one() {
        let targets = set(2000);
        assert!(firsts(&targets).into_iter().eq(0..targets.len()));
    }
}
