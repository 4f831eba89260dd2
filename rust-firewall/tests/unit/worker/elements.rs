// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the messages that add elements to the kernel's sets: their bytes, and the kernel's answers.

use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use rust_firewall::engine::compiled::CompileKernelSet;
use rust_firewall::names::answer::ADDRESSES_MAX;
use rust_firewall::policy::Family;
use rust_firewall::worker::elements::{self, BATCHES_MAX, BATCH_BYTES};

const ADDRESS: [u8; 4] = [10, 0, 0, 1];
/// Timeout of 60000 milliseconds, in network order.
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

fn build(set: &CompileKernelSet, addresses: &[u128]) -> Vec<u8> {
    let mut bytes = [0; BATCH_BYTES];
    let length = elements::build(set, addresses, 60_000, &mut bytes);
    bytes[..length].to_vec()
}

/// Returns a message with a type, flags, a family, res_id (the last 2 bytes of the headers) and attributes.
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

/// Returns an element: an address, and more attributes.
fn element(address: &[u8], more: &[u8]) -> Vec<u8> {
    let key = attribute(1 | NESTED, &attribute(1, address));
    attribute(1 | NESTED, &[&key[..], more].concat())
}

/// Returns the attributes of a message about elements: table "f", set "set", and the elements.
fn elements_of(elements: &[u8]) -> Vec<u8> {
    let elements = attribute(3 | NESTED, elements);
    [attribute(1, b"f\0"), attribute(2, b"set\0"), elements].concat()
}

/// Returns the expected batch that adds addresses to a set of a family's table.
fn batch(family: u8, addresses: &[&[u8]]) -> Vec<u8> {
    let all = |more: &[u8]| {
        let elements = addresses.iter().map(|address| element(address, more));
        elements_of(&elements.collect::<Vec<_>>().concat())
    };
    let timed = all(&attribute(4, &TIMEOUT));
    [
        message(16, 1, 0, [0, 10], &[]),
        message(0x0a0c, 0x401, family, [0, 0], &all(&[])),
        message(0x0a0e, 1, family, [0, 0], &all(&[])),
        message(0x0a0c, 0x605, family, [0, 0], &timed),
        message(17, 1, 0, [0, 10], &[]),
    ]
    .concat()
}

#[test]
fn a_batch_adds_elements_that_may_be_there() {
    let other = [10, 0, 0, 2];
    let addresses = [ADDRESS, other].map(|bytes| u32::from_be_bytes(bytes).into());
    let built = build(&set(Family::Inet, false), &addresses);
    assert_eq!(built, batch(1, &[&ADDRESS, &other]));
    let address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let built = build(&set(Family::Ip6, true), &[u128::from_be_bytes(address)]);
    assert_eq!(built, batch(10, &[&address]));
    let ip = build(&set(Family::Ip, false), &[1]);
    assert_eq!(ip[20 + 16], 2, "the family of the table");
}

#[test]
fn the_largest_answer_fits() {
    let long = CompileKernelSet {
        table: "t".repeat(127),
        name: "s".repeat(127),
        ..set(Family::Inet, true)
    };
    let built = build(&long, &[u128::MAX; ADDRESSES_MAX]);
    assert_eq!(built[built.len() - 20..], message(17, 1, 0, [0, 10], &[]));
}

#[test]
fn the_remaining_time_of_an_element() {
    let left = |more: &[u8]| {
        let attributes = elements_of(&element(&ADDRESS, more));
        elements::left_of(&message(0x0a0c, 0, 1, [0, 0], &attributes))
    };
    let times = [attribute(4, &[1; 8]), attribute(5, &TIMEOUT)].concat();
    assert_eq!(left(&times), 60_000);
    assert_eq!(left(&[]), u64::MAX, "it does not expire");
    assert_eq!(left(&attribute(5, &TIMEOUT[..7])), 0, "cut");
    let missing = [
        &[0; 4][..],
        &[2, 0],
        &[0; 10],
        &(-libc::ENOENT).to_ne_bytes(),
    ]
    .concat();
    assert_eq!(elements::left_of(&missing), 0);
    assert_eq!(elements::left_of(&[0; 19]), 0);
    assert_eq!(
        elements::left_of(&[0; 24]),
        0,
        "an attribute without a length"
    );
}

#[test]
fn what_stays_long_enough_needs_no_transaction() {
    assert_eq!(elements::timeout_of(60_000), 66_000);
    assert_eq!(elements::timeout_of(86_400_000), 86_460_000);
}

#[test]
fn transactions_in_a_second_are_limited() {
    let batches = AtomicU64::new(0);
    let second = |now_ns| {
        let tries = (0..2 * BATCHES_MAX).filter(|_| elements::is_in_time(&batches, now_ns));
        tries.count() as u64
    };
    assert_eq!(second(5_000_000_000), BATCHES_MAX);
    assert_eq!(second(5_999_999_999), 0);
    assert_eq!(second(6_000_000_000), BATCHES_MAX);
    assert_eq!(second(5_999_999_999), 0, "another worker's clock");
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
