// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks for interfaces that accept packets with false source addresses: such a packet can open a connection, which
//! binds the addresses of the connection to interfaces.

use rust_firewall::state::reverse_path;

use super::finding::Findings;
use super::Patient;

/// Returns the command that makes the reverse-path filter of these interfaces strict.
fn cure(interfaces: &[String]) -> String {
    let all = ["all".to_owned()];
    let words = all.iter().chain(interfaces).map(|name| {
        // sysctl uses a slash in place of a dot in a name.
        format!(" net.ipv4.conf.{}.rp_filter=1", name.replace('.', "/"))
    });
    format!("sudo sysctl -w{}", words.collect::<String>())
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    let Some(names) = reverse_path::read() else {
        findings.unseen("/proc/net/route, so by which interfaces false source addresses come in");
        return;
    };
    if names.is_empty() {
        findings.ok("no IPv4 packet comes in with an address of another interface (rp_filter)");
        return;
    }
    let what = format!(
        "IPv4 packets with false source addresses come in by {}: rp_filter is off or loose there, and IPv6 has none",
        names.join(", ")
    );
    match patient.reads_names() {
        true => findings.warning(what, cure(&names)),
        false => findings.note(what, cure(&names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_is_one_command() {
        assert_eq!(
            cure(&["eth2.5".to_owned()]),
            "sudo sysctl -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth2/5.rp_filter=1"
        );
    }
}
