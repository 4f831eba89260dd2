// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks what the next boot restores of a firewall that systemd runs: its unit, and its queue rules.

use std::path::Path;
use std::{fs, io};

use super::finding::Findings;
use super::ruleset::QueueRule;
use super::{applied_tables, Patient};
use crate::applied::firewall::INSTANCE;
use crate::failure::words;
use crate::upgrade::unit;

/// File that nftables.service loads.
const CONF: &str = "/etc/nftables.conf";
const SERVICE: &str = "nftables.service";
/// Unit that loads the applied policy, and starts its firewall.
const BOOT: &str = "twinwall.service";

/// Returns true if a unit is disabled, so that the boot does not start it.
fn is_off(name: &str) -> bool {
    let shown = unit::show(name, "UnitFileState").unwrap_or_default();
    unit::property(&shown, "UnitFileState") == Some("disabled")
}

/// Returns true if a file of nft commands, or a file that it includes, has a queue rule; false if the file is missing.
/// Fails if one of them can't be read.
fn feeds(conf: &str) -> io::Result<bool> {
    if !Path::new(conf).exists() {
        return Ok(false);
    }
    let source = stage::file(conf)?;
    let lines = source.text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.starts_with('#'));
    let has_queue = |line: &str| line.split_whitespace().any(|word| word == "queue");
    Ok(lines.any(has_queue))
}

/// Returns a command that makes the boot load an nft table.
/// - table: family and name, such as "inet twinwall_queue".
fn keep(table: &str) -> String {
    format!(
        "sudo sh -c 'nft --stateless list table {table} >/etc/twinwall/queue.nft && echo \"include \\\"/etc/twinwall/queue*.nft\\\"\" \
         >>{CONF} && systemctl enable nftables'"
    )
}

/// Returns the table of the first nft rule that queues packets and is in no table of the applied policy; `fwctl boot`
/// loads the policy's tables.
/// - applied: names of the applied policy's tables.
fn kept_by_conf(queue_rules: &[QueueRule], applied: &[String]) -> Option<String> {
    let of_nft = queue_rules.iter().filter(|rule| rule.tool == "nft");
    let mut tables = of_nft.map(|rule| {
        let (_, place) = rule.text.split_once(": ").unwrap_or_default();
        let table: Vec<&str> = place.split(' ').take(2).collect();
        table.join(" ")
    });
    tables.find(|table| !applied.contains(table))
}

fn check_rules(queue_rules: &[QueueRule], findings: &mut Findings) {
    let Some(table) = kept_by_conf(queue_rules, &applied_tables()) else {
        return;
    };
    match (feeds(CONF), is_off(SERVICE)) {
        (Ok(true), false) => findings.ok(format!("{CONF}, which the boot loads, leads packets to queues")),
        (Ok(true), true) => findings.warning(
            format!("{SERVICE} is off: the next boot loads no rule of {CONF}, and no packet comes to the firewall"),
            "sudo systemctl enable nftables",
        ),
        (Ok(false), _) => findings.warning(
            format!("{CONF} leads no packet to a queue: after the next boot the firewall sees none"),
            keep(&table),
        ),
        (Err(error), _) => {
            let why = words(&error);
            findings.unseen(format!("whether {CONF} leads packets to queues: {why}"));
        }
    }
}

/// Returns true if a unit is the firewall of `fwctl apply`.
fn is_of_apply(name: &str) -> bool {
    let name = name.strip_suffix(".service").unwrap_or(name);
    let instance = name.split_once('@');
    instance.is_some_and(|(_, instance)| instance == INSTANCE)
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
    if is_of_apply(&name) {
        return match is_off(BOOT) {
            true => findings.warning(
                format!(
                    "{BOOT} is not enabled: no boot loads the applied policy and starts {name}"
                ),
                format!("sudo systemctl enable {BOOT}"),
            ),
            false => findings.ok(format!(
                "{BOOT} loads the applied policy at boot, and starts {name}"
            )),
        };
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
    use super::super::nft;
    use super::super::ruleset::queue_rules;
    use super::*;

    #[test]
    fn a_file_feeds_by_itself_or_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("parts")).unwrap();
        fs::write(path("parts/a.nft"), "\tiifname \"a\" accept\n").unwrap();
        let queue = "\tiifname \"a\" queue num 0 bypass\n";
        fs::write(path("parts/b.nft"), queue).unwrap();
        let conf = path("nftables.conf");
        let feeds = |text: &str| {
            fs::write(&conf, text).unwrap();
            feeds(conf.to_str().unwrap())
        };
        for (text, expected) in [
            ("flush ruleset\n", false),
            (queue, true),
            ("include \"parts/*.nft\"\n", true),
            ("include \"parts/a.nft\"\n", false),
            ("include \"parts/none*.nft\"\n", false),
            ("# include \"parts/b.nft\"\n# queue num 0\n", false),
        ] {
            assert_eq!(feeds(text).unwrap(), expected, "{text}");
        }
        assert!(feeds("include \"gone.nft\"\n").is_err());
        fs::remove_file(&conf).unwrap();
        assert!(!super::feeds(conf.to_str().unwrap()).unwrap());
    }

    #[test]
    fn only_the_boot_restores_the_tables_of_the_applied_policy() {
        let rules = |table: &str| {
            let text = format!(
                r#"{{"nftables":[{{"table":{{"family":"inet","name":"{table}"}}}},
                {{"chain":{{"family":"inet","table":"{table}","name":"c","hook":"input"}}}},
                {{"rule":{{"family":"inet","table":"{table}","chain":"c","handle":3,"expr":[{{"queue":{{"num":0}}}}]}}}}]}}"#
            );
            queue_rules(&nft::parse(&text).unwrap().0[0])
        };
        let applied = ["inet host".to_owned()];
        let all = [rules("host"), rules("other")].concat();
        assert_eq!(kept_by_conf(&rules("host"), &applied), None);
        assert_eq!(kept_by_conf(&all, &applied).as_deref(), Some("inet other"));
    }

    #[test]
    fn the_instance_of_apply_is_started_by_another_unit() {
        for (name, expected) in [
            ("twinwall-rust@twinwall.service", true),
            ("twinwall-c@twinwall.service", true),
            ("twinwall-rust@web.service", false),
            ("twinwall-agent.service", false),
        ] {
            assert_eq!(is_of_apply(name), expected, "{name}");
        }
    }
}
