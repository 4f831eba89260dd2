// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks what the next boot restores of a firewall that systemd runs: its unit, and its queue rules.

use std::fs;

use super::finding::Findings;
use super::ruleset::QueueRule;
use super::Patient;
use crate::upgrade::unit;

/// File that nftables.service loads.
const CONF: &str = "/etc/nftables.conf";
const SERVICE: &str = "nftables.service";

/// Returns true if a unit is disabled, so that the boot does not start it.
fn is_off(name: &str) -> bool {
    let shown = unit::show(name, "UnitFileState").unwrap_or_default();
    unit::property(&shown, "UnitFileState") == Some("disabled")
}

/// Returns true if the text of nftables.conf has a queue rule, or includes a file whose path contains "twinwall".
fn feeds(conf: &str) -> bool {
    let lines = conf.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.starts_with('#'));
    lines.any(|line| {
        let is_included = line.starts_with("include ") && line.contains("twinwall");
        is_included || line.split_whitespace().any(|word| word == "queue")
    })
}

/// Returns a command that makes the boot load an nft table.
/// - table: family and name, such as "inet twinwall_queue".
fn keep(table: &str) -> String {
    format!(
        "sudo sh -c 'nft --stateless list table {table} >/etc/twinwall/queue.nft && echo \"include \\\"/etc/twinwall/queue*.nft\\\"\" \
         >>{CONF} && systemctl enable nftables'"
    )
}

fn check_rules(queue_rules: &[QueueRule], findings: &mut Findings) {
    let mut of_nft = queue_rules.iter().filter(|rule| rule.tool == "nft");
    let Some(rule) = of_nft.next() else {
        return;
    };
    let (_, place) = rule.text.split_once(": ").unwrap_or_default();
    let table: Vec<&str> = place.split(' ').take(2).collect();
    let feeds = feeds(&fs::read_to_string(CONF).unwrap_or_default());
    match (feeds, is_off(SERVICE)) {
        (true, false) => findings.ok(format!("{CONF}, which the boot loads, leads packets to queues")),
        (true, true) => findings.warning(
            format!("{SERVICE} is off: the next boot loads no rule of {CONF}, and no packet comes to the firewall"),
            "sudo systemctl enable nftables",
        ),
        (false, _) => findings.warning(
            format!("{CONF} leads no packet to a queue: after the next boot the firewall sees none"),
            keep(&table.join(" ")),
        ),
    }
}

pub fn check(patient: &Patient, queue_rules: &[QueueRule], findings: &mut Findings) {
    let Some(name) = patient.status.as_ref().and_then(|status| {
        let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", status.pid)).ok()?;
        unit::service_of(&cgroups).map(str::to_owned)
    }) else {
        return;
    };
    if !name.starts_with("twinwall-") {
        return;
    }
    match is_off(&name) {
        true => findings.warning(
            format!("{name} is not enabled: no boot starts it"),
            format!("sudo systemctl enable {name}"),
        ),
        false => findings.ok(format!("{name} is started at boot")),
    }
    check_rules(queue_rules, findings);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_feeds_by_itself_or_by_another() {
        for (conf, expected) in [
            ("flush ruleset\n", false),
            ("\tiifname \"a\" queue num 0 bypass\n", true),
            ("include \"/usr/share/twinwall/queue/host*.nft\"\n", true),
            ("# include \"/usr/share/twinwall/queue/host.nft\"\n", false),
        ] {
            assert_eq!(feeds(conf), expected, "{conf}");
        }
    }
}
