// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces by which IPv4 packets with false source addresses come in: such a packet can be the first of a connection, and binds
//! the connection's ends to the wrong interfaces. IPv6 has no such filter.

use std::fs;

use crate::base::log;

/// Strict (RFC 3704, section 2.2): a packet's source must be reached by the interface that it comes in by.
const STRICT: u32 = 1;
/// Interfaces that are looked at, at most.
pub const NAMES_MAX: usize = 16;

/// Returns the value of an interface, or of `all`; None: it can't be read.
fn rp_filter(name: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).ok()?;
    text.chars().next()?.to_digit(10)
}

/// Returns the interfaces with an IPv4 route whose filter is off or loose: of the interface's value and that of `all` the higher one
/// counts (Documentation/networking/ip-sysctl.rst). None if there is one interface only, by which all addresses are reached.
/// - routes: text of /proc/net/route.
/// - filter: value of an interface, or of `all`.
pub fn find(routes: &str, filter: &dyn Fn(&str) -> Option<u32>) -> Vec<String> {
    let all = filter("all").unwrap_or(STRICT);
    let mut found: Vec<String> = Vec::new();
    for line in routes.lines().skip(1) {
        let name = line.split('\t').next().unwrap_or_default();
        if found.len() < NAMES_MAX && name != "lo" && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    if found.len() == 1 {
        found.clear();
    }
    let is_open = |own: u32| all.max(own) != STRICT;
    found.retain(|name| filter(name).is_some_and(is_open));
    found
}

/// Returns the interfaces of this network namespace, as `find` does. None: the routes can't be read.
pub fn read() -> Option<Vec<String>> {
    let routes = fs::read_to_string("/proc/net/route").ok()?;
    Some(find(&routes, &rp_filter))
}

/// Warns of such interfaces.
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
