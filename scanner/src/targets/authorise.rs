// SPDX-License-Identifier: GPL-2.0-or-later
//! Permitted targets: private, loopback and link-local addresses; other addresses only with `--i-am-authorised`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::set::subtract;
use super::{Address, Family, Range};
use crate::failure::{Failure, Result};

/// Private networks (address, prefix length): RFC 1918, RFC 1122 (loopback), RFC 3927 (link-local).
const PRIVATE_V4: [([u8; 4], u32); 5] = [
    ([10, 0, 0, 0], 8),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 168, 0, 0], 16),
];
/// Private networks (address, prefix length): loopback, RFC 4193 (unique local), RFC 4291 (link-local).
const PRIVATE_V6: [(u128, u32); 3] = [(1, 128), (0xfc00 << 112, 7), (0xfe80 << 112, 10)];

/// Addresses that no host has: "this network", multicast, reserved and broadcast. They are never asked.
const NOBODY_V4: [([u8; 4], u32); 3] =
    [([0, 0, 0, 0], 8), ([224, 0, 0, 0], 4), ([240, 0, 0, 0], 4)];
const NOBODY_V6: [(u128, u32); 2] = [(0, 128), (0xff00 << 112, 8)];

fn ranges(v4: &[([u8; 4], u32)], v6: &[(u128, u32)]) -> Vec<Range> {
    let range = |family, first, bits: u32, length: u32| Range {
        family,
        scope: 0,
        first,
        last: first | (1u128 << (bits - length)) - 1,
    };
    let v4 = v4.iter().map(|&(octets, length)| {
        let first = u128::from(Ipv4Addr::from(octets).to_bits());
        range(Family::V4, first, 32, length)
    });
    let v6 = v6
        .iter()
        .map(|&(first, length)| range(Family::V6, first, 128, length));
    v4.chain(v6).collect()
}

/// Returns the addresses that no host has.
pub fn nobody() -> Vec<Range> {
    ranges(&NOBODY_V4, &NOBODY_V6)
}

/// Fails with the first address that is not private, unless the user confirms authorisation.
pub fn check(targets: &[Range], authorised: bool) -> Result<()> {
    if authorised {
        return Ok(());
    }
    let private = ranges(&PRIVATE_V4, &PRIVATE_V6);
    let mapped = targets.iter().find_map(mapped);
    match subtract(targets, &private).first() {
        Some(range) => Err(refused(range.address(range.first))),
        None => mapped.map_or(Ok(()), |address| Err(refused(address))),
    }
}

/// Returns a range's first address if it is in ::ffff:0:0/96. Such an address reaches an IPv4 host, and is refused even
/// if this host is private.
fn mapped(range: &Range) -> Option<Address> {
    let address = range.address(range.first);
    let is_mapped = |ip: Ipv6Addr| ip.to_ipv4_mapped().is_some();
    match address.ip {
        std::net::IpAddr::V6(ip) if is_mapped(ip) => Some(address),
        _ => None,
    }
}

fn refused(address: Address) -> Failure {
    Failure::usage(format!(
        "{address} is neither private nor loopback: ask only hosts whose owner agrees, and then say --i-am-authorised"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::grammar::{parse, Word};

    fn of(word: &str) -> Range {
        match parse(word).unwrap() {
            Word::Range {
                family,
                first,
                last,
                ..
            } => Range {
                family,
                scope: 0,
                first,
                last,
            },
            Word::Name(_) => unreachable!(),
        }
    }

    #[test]
    fn private_is_allowed() {
        for word in [
            "10.0.0.0/8",
            "127.0.0.1",
            "172.31.255.255",
            "192.168.0.0/16",
            "169.254.1.1",
            "::1",
            "fd00::/8",
            "fe80::/120",
        ] {
            assert_eq!(check(&[of(word)], false), Ok(()), "{word}");
        }
    }

    #[test]
    fn all_else_is_refused_by_its_first_address() {
        for (word, address) in [
            ("8.8.8.8", "8.8.8.8"),
            ("10.0.0.0/7", "11.0.0.0"),
            ("172.16.0.0/11", "172.0.0.0"),
            ("100.64.0.0/10", "100.64.0.0"),
            ("192.167.255.255-192.168.0.0", "192.167.255.255"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("::/127", "::"),
        ] {
            let failure = check(&[of(word)], false).unwrap_err();
            assert!(
                failure.text.starts_with(&format!("{address} is")),
                "{failure}"
            );
            assert_eq!(check(&[of(word)], true), Ok(()));
        }
    }
}
