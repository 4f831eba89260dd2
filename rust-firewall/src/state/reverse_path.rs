// SPDX-License-Identifier: GPL-2.0-or-later
//! Detection of interfaces that accept IPv4 packets with false source addresses, because the reverse path filter
//! (rp_filter) is off or loose. Such a packet can begin a connection, whose ends are then expected at the wrong
//! interfaces. The kernel has no such filter for IPv6.

use std::collections::HashSet;
use std::fs;

use crate::base::log;

/// Value of rp_filter for a strict filter (RFC 3704, section 2.2): a packet's source address must be reachable through
/// the interface at which it arrives.
const STRICT: u32 = 1;
/// Maximum number of interfaces that are reported.
pub const NAMES_MAX: usize = 16;

/// Returns the value of rp_filter for an interface, or for `all`; None if it can't be read.
fn rp_filter(name: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).ok()?;
    text.chars().next()?.to_digit(10)
}

/// Returns the interfaces with an IPv4 route whose rp_filter is off or loose. The higher of the interface's value and
/// the value of `all` is in effect (Documentation/networking/ip-sysctl.rst). Returns none if there is only one
/// interface, because all addresses are reachable through it.
/// - routes: text of /proc/net/route.
/// - filter: returns the value of an interface, or of `all`; None if it can't be read: then the interface is not
///   reported, and `all` counts as strict.
pub fn find(routes: &str, filter: &dyn Fn(&str) -> Option<u32>) -> Vec<String> {
    let all = filter("all").unwrap_or(STRICT);
    let is_open = |own: u32| all.max(own) != STRICT;
    let mut known = HashSet::new();
    let mut found: Vec<String> = Vec::new();
    for line in routes.lines().skip(1) {
        let name = line.split('\t').next().unwrap_or_default();
        if name == "lo" || !known.insert(name) {
            continue;
        }
        if found.len() < NAMES_MAX && filter(name).is_some_and(is_open) {
            found.push(name.to_owned());
        }
    }
    if known.len() == 1 {
        found.clear();
    }
    found
}

/// Returns the interfaces of this network namespace that `find` reports; None if the routes can't be read.
pub fn read() -> Option<Vec<String>> {
    let routes = fs::read_to_string("/proc/net/route").ok()?;
    Some(find(&routes, &rp_filter))
}

/// Logs a warning that names the interfaces with a filter that is off or loose, if there are any.
pub fn warn() {
    let found = read().unwrap_or_default();
    if !found.is_empty() {
        log::warn(format_args!(
            "IPv4 packets with false source addresses come in by {}: rp_filter is off or loose there, and IPv6 has none: see \
             `fwctl doctor`",
            found.join(", ")
        ));
    }
}
