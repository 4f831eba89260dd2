// SPDX-License-Identifier: GPL-2.0-or-later
//! Names in /etc/hosts: a program finds their addresses without DNS, so no set learns them.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

const FILE: &str = "/etc/hosts";

fn is_meant(names: &BTreeSet<String>, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let is_below = |name: &String| {
        name.strip_prefix('*')
            .is_some_and(|end| host.ends_with(end))
    };
    names.contains(&host) || names.iter().any(is_below)
}

fn addresses_in(text: &str, names: &BTreeSet<String>) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        let Some(address) = address.filter(|address| !address.is_loopback()) else {
            continue;
        };
        if words.any(|host| is_meant(names, host)) {
            found.insert(address);
        }
    }
    found
}

/// Returns the addresses in /etc/hosts, except loopback addresses, for these names, which may begin with `*.`.
pub fn addresses(names: &BTreeSet<String>) -> BTreeSet<IpAddr> {
    addresses_in(&fs::read_to_string(FILE).unwrap_or_default(), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_names_are_found() {
        let text = "127.0.0.1 localhost a.example\n192.0.2.1\tA.example www # b.example\n2001:db8::1 x.c.example\nx y\n";
        let of = |name: &str| addresses_in(text, &BTreeSet::from([name.to_owned()]));
        assert_eq!(of("a.example").len(), 1);
        assert_eq!(of("b.example").len(), 0);
        assert_eq!(of("*.c.example").len(), 1);
        assert_eq!(of("c.example").len(), 0);
    }
}
