// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces by which packets with false source addresses come in: such a packet can be the first of a connection, which binds the
//! connection's ends to interfaces.

use std::fs;
use std::path::Path;

use super::finding::Findings;

const CONF: &str = "/proc/sys/net/ipv4/conf";
/// Strict (RFC 3704, section 2.2): a packet's source must be reached by the interface that it comes in by.
const STRICT: u32 = 1;
/// Entries that are no interface that packets come in by from elsewhere.
const OTHERS: [&str; 3] = ["all", "default", "lo"];

/// Of one of `OTHERS`, or of an interface.
fn rp_filter(name: &str) -> Option<u32> {
    let path = Path::new(CONF).join(name).join("rp_filter");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What all interfaces have of their own; None: it can't be seen.
fn interfaces() -> Option<Vec<(String, u32)>> {
    let entries = fs::read_dir(CONF).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let own = names
        .filter(|name| !OTHERS.contains(&name.as_str()))
        .filter_map(|name| rp_filter(&name).map(|own| (name, own)));
    Some(own.collect())
}

/// Interfaces whose filter is off or loose, in alphabetical order: of its value and that of `all` the higher one counts
/// (Documentation/networking/ip-sysctl.rst).
fn not_strict(all: u32, interfaces: Vec<(String, u32)>) -> Vec<String> {
    let found = interfaces
        .into_iter()
        .filter(|(_, own)| all.max(*own) != STRICT);
    let mut names: Vec<String> = found.map(|(name, _)| name).collect();
    names.sort();
    names
}

/// The command that makes the filter strict.
fn cure(interfaces: &[String]) -> String {
    let all = ["all".to_owned()];
    let words = all.iter().chain(interfaces).map(|name| {
        // sysctl takes a slash for a dot in a name.
        format!(" net.ipv4.conf.{}.rp_filter=1", name.replace('.', "/"))
    });
    format!("sudo sysctl -w{}", words.collect::<String>())
}

pub fn check(findings: &mut Findings) {
    let (Some(all), Some(interfaces)) = (rp_filter("all"), interfaces()) else {
        findings.unseen("net.ipv4.conf: not to be seen in this namespace");
        return;
    };
    let names = not_strict(all, interfaces);
    if names.is_empty() {
        findings.ok("no IPv4 packet with a false source address comes in (rp_filter)");
        return;
    }
    findings.note(
        format!(
            "IPv4 packets with false source addresses come in by {}: rp_filter is off or loose there, and IPv6 has none",
            names.join(", ")
        ),
        cure(&names),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_one_of_both_values_counts() {
        let interfaces =
            || [("eth2.5", 2), ("eth1", 1), ("eth0", 0)].map(|(name, own)| (name.to_owned(), own));
        assert_eq!(not_strict(0, interfaces().into()), ["eth0", "eth2.5"]);
        assert_eq!(not_strict(1, interfaces().into()), ["eth2.5"]);
        assert_eq!(
            not_strict(2, interfaces().into()),
            ["eth0", "eth1", "eth2.5"]
        );
    }

    #[test]
    fn the_cure_is_one_command() {
        assert_eq!(
            cure(&["eth2.5".to_owned()]),
            "sudo sysctl -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth2/5.rp_filter=1"
        );
    }
}
