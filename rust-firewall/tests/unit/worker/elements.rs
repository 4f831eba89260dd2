// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages that add elements to sets of the kernel: their bytes, and the kernel's results.

use nix::errno::Errno;
use rust_firewall::engine::compiled::CompileKernelSet;
use rust_firewall::policy::Family;
use rust_firewall::worker::elements::{self, BATCH_BYTES};

const ADDRESS: [u8; 4] = [10, 0, 0, 1];
/// A minute, in milliseconds.
const TIMEOUT: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xea, 0x60];
const NESTED: u16 = 0x8000;

fn set(family: Family, is_ipv6: bool) -> CompileKernelSet {
    CompileKernelSet {
        family,
        is_ipv6,
        table: "f".to_owned(),
        name: "set".to_owned(),
    }
}

fn build(set: &CompileKernelSet, address: u128, replaces: bool) -> Vec<u8> {
    let mut bytes = [0; BATCH_BYTES];
    let length = elements::build(set, address, 60_000, replaces, &mut bytes);
    bytes[..length].to_vec()
}

/// A message: type, flags, family, the last 2 bytes of its header, attributes.
fn message(kind: u16, flags: u16, family: u8, res_id: [u8; 2], attributes: &[u8]) -> Vec<u8> {
    let length = 20 + attributes.len() as u32;
    let numbers = [kind.to_ne_bytes(), flags.to_ne_bytes()].concat();
    let tail = [family, 0, res_id[0], res_id[1]];
    [
        &length.to_ne_bytes()[..],
        &numbers,
        &[0; 8],
        &tail,
        attributes,
    ]
    .concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len() as u16;
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        value,
        &padding,
    ]
    .concat()
}

/// Attributes of a message about an element.
fn element(address: &[u8], timeout: &[u8]) -> Vec<u8> {
    let key = attribute(1 | NESTED, &attribute(1, address));
    let element = attribute(1 | NESTED, &[&key[..], timeout].concat());
    let elements = attribute(3 | NESTED, &element);
    [attribute(1, b"f\0"), attribute(2, b"set\0"), elements].concat()
}

#[test]
fn a_batch_adds_an_element() {
    let address = u32::from_be_bytes(ADDRESS).into();
    let expected = [
        message(16, 1, 0, [0, 10], &[]),
        message(
            0x0a0c,
            0x605,
            1,
            [0, 0],
            &element(&ADDRESS, &attribute(4, &TIMEOUT)),
        ),
        message(17, 1, 0, [0, 10], &[]),
    ];
    assert_eq!(
        build(&set(Family::Inet, false), address, false),
        expected.concat()
    );
}

#[test]
fn an_element_is_replaced_in_one_batch() {
    let address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let expected = [
        message(16, 1, 0, [0, 10], &[]),
        message(0x0a0e, 1, 10, [0, 0], &element(&address, &[])),
        message(
            0x0a0c,
            0x605,
            10,
            [0, 0],
            &element(&address, &attribute(4, &TIMEOUT)),
        ),
        message(17, 1, 0, [0, 10], &[]),
    ];
    let built = build(&set(Family::Ip6, true), u128::from_be_bytes(address), true);
    assert_eq!(built, expected.concat());
    let ip = build(&set(Family::Ip, false), 1, false);
    assert_eq!(ip[20 + 16], 2, "the family of the table");
}

#[test]
fn the_longest_names_fit() {
    let long = CompileKernelSet {
        table: "t".repeat(127),
        name: "s".repeat(127),
        ..set(Family::Inet, true)
    };
    let built = build(&long, u128::MAX, true);
    assert_eq!(built[built.len() - 20..], message(17, 1, 0, [0, 10], &[]));
}

#[test]
fn results_of_the_kernel() {
    let result = |kind: u16, error: i32| {
        let numbers = [kind.to_ne_bytes(), [0; 2]].concat();
        let message = [&[0; 4][..], &numbers, &[0; 8], &error.to_ne_bytes()].concat();
        elements::result_of(&message)
    };
    assert_eq!(result(2, 0), Ok(()));
    assert_eq!(result(2, -libc::EEXIST), Err(Errno::EEXIST));
    assert_eq!(result(3, 0), Err(Errno::EPROTO));
    assert_eq!(elements::result_of(&[2; 19]), Err(Errno::EPROTO));
}
