// SPDX-License-Identifier: GPL-2.0-or-later
//! Permitted targets: private, loopback and link-local addresses; other addresses only with `--i-am-authorised`.

use std::net::Ipv4Addr;

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

/// First and last IPv4-mapped IPv6 address, ::ffff:0:0/96 (RFC 4291). Connections to these addresses reach IPv4 hosts.
const MAPPED: (u128, u128) = (0xffff << 32, 0xffff_ffff_ffff);

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

/// Fails if a target is IPv4-mapped: lists of IPv4 addresses do not apply to it. Also fails if a target is not private,
/// unless the user has confirmed authorisation. The error names the first such address.
/// - authorised: true if the user has confirmed it (--i-am-authorised).
pub fn check(targets: &[Range], authorised: bool) -> Result<()> {
    if let Some(failure) = targets.iter().find_map(mapped) {
        return Err(failure);
    }
    if authorised {
        return Ok(());
    }
    let private = ranges(&PRIVATE_V4, &PRIVATE_V6);
    match subtract(targets, &private).first() {
        Some(range) => Err(refused(range.address(range.first))),
        None => Ok(()),
    }
}

/// Returns an error that names the first IPv4-mapped address of a range, if it has any.
fn mapped(range: &Range) -> Option<Failure> {
    let (first, last) = (range.first.max(MAPPED.0), range.last.min(MAPPED.1));
    if range.family == Family::V4 || first > last {
        return None;
    }
    let (address, ipv4) = (range.address(first), Ipv4Addr::from_bits(first as u32));
    Some(Failure::usage(format!(
        "{address} is an IPv4-mapped IPv6 address: name the IPv4 address, {ipv4}"
    )))
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

    #[test]
    fn ipv4_mapped_addresses_are_always_refused() {
        for (word, address) in [
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:8.8.8.8", "8.8.8.8"),
            ("::ffff:0:0/96", "0.0.0.0"),
            ("::fffe:ffff:ffff-::ffff:0:5", "0.0.0.0"),
            ("::ffff:255.255.255.255-::1:0:0:1", "255.255.255.255"),
        ] {
            for authorised in [false, true] {
                let failure = check(&[of(word)], authorised).unwrap_err();
                let cause = format!("::ffff:{address} is an IPv4-mapped IPv6 address: ");
                let cure = format!("name the IPv4 address, {address}");
                assert_eq!(failure.text, cause + &cure);
            }
        }
        for word in ["::fffe:ffff:ffff", "::1:0:0:0", "0.0.255.255"] {
            assert_eq!(check(&[of(word)], true), Ok(()), "{word}");
        }
    }
}
