// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the search for interfaces at which IPv4 packets with false source addresses can arrive.

use rust_firewall::state::reverse_path::{find, NAMES_MAX};

/// Returns the text of /proc/net/route with a route by each interface.
fn routes(names: &[&str]) -> String {
    let head = "Iface\tDestination\tGateway\n".to_owned();
    let lines = names
        .iter()
        .map(|name| format!("{name}\t0002000A\t00000000\n"));
    head + &lines.collect::<String>()
}

/// Returns the result of `find` for a route by each of these interfaces. The reverse path filter of the interface `off`
/// is off (0), that of `loose` is loose (2), that of `unknown` can't be read, and all others are strict (1).
/// - all: value of rp_filter for `all`.
fn found(all: u32, names: &[&str]) -> Vec<String> {
    find(&routes(names), &|name: &str| match name {
        "all" => Some(all),
        "off" => Some(0),
        "loose" => Some(2),
        "unknown" => None,
        _ => Some(1),
    })
}

#[test]
fn filters_that_are_off_or_loose_are_found() {
    let names = ["off", "strict", "loose", "unknown", "off"];
    assert_eq!(found(0, &names), ["off", "loose"]);
}

#[test]
fn the_higher_value_is_in_effect() {
    assert_eq!(found(1, &["off", "strict", "loose"]), ["loose"]);
    assert_eq!(found(2, &["off", "strict"]), ["off", "strict"]);
}

#[test]
fn a_single_interface_needs_no_filter() {
    assert!(found(0, &["off"]).is_empty());
    assert!(found(0, &["off", "off", "lo"]).is_empty());
    assert!(found(0, &[]).is_empty());
}

#[test]
fn the_number_of_names_is_limited() {
    let names: Vec<_> = (0..=NAMES_MAX).map(|number| format!("e{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(found(2, &names), names[..NAMES_MAX]);
}

#[test]
fn interfaces_with_a_strict_filter_leave_room_for_others() {
    let names: Vec<_> = (0..=NAMES_MAX).map(|number| format!("e{number}")).collect();
    let names = names.iter().map(String::as_str).chain(["off"]);
    assert_eq!(found(0, &names.collect::<Vec<_>>()), ["off"]);
}
