// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks the queue rules: whether they exist, and which rules prevent packets from reaching them.

use rust_firewall::queue;

use super::cure::{self, Queues};
use super::finding::Findings;
use super::rights;
use super::ruleset::{self, QueueRule, Table, ANY_QUEUE};
use super::{before, boot, flows, tools, Patient};

/// Returns a command that lists the rules around a rule.
fn show(rule: &QueueRule) -> String {
    let (_, text) = rule.text.split_once(": ").unwrap_or_default();
    match (rule.tool, text.split(' ').collect::<Vec<&str>>().as_slice()) {
        ("nft", _) => "sudo nft --handle list ruleset".to_owned(),
        (tool, ["-t", table, ..]) => format!("sudo {tool} -t {table} -S"),
        (tool, _) => format!("sudo {tool} -S"),
    }
}

fn check_rule(rule: &QueueRule, patient: &Patient, findings: &mut Findings) {
    let ours = patient
        .queues
        .iter()
        .any(|queue| (rule.first..=rule.last).contains(queue));
    if ours {
        if let Some(before) = &rule.blocked {
            findings.error(
                format!(
                    "no packet reaches \"{}\": \"{before}\" comes before it",
                    rule.text
                ),
                cure::delete(before),
            );
        }
        for before in &rule.skipped {
            findings.note(
                format!("packets of \"{before}\" pass \"{}\" by, unseen", rule.text),
                show(rule),
            );
        }
        let open = patient.crash_open();
        if open == Some(false) && rule.bypass && !rule.is_of_resets {
            findings.warning(
                format!(
                    "--fail crash=closed, but \"{}\" lets packets pass while no firewall runs",
                    rule.text
                ),
                cure::replace(rule, Queues(rule.first, rule.last), false),
            );
        }
        if open == Some(true) && !rule.bypass {
            findings.note(
                format!(
                    "--fail crash=open, but once the firewall and its guard are gone \"{}\" drops",
                    rule.text
                ),
                cure::replace(rule, Queues(rule.first, rule.last), true),
            );
        }
    }
    if (rule.first, rule.last) == ANY_QUEUE {
        return;
    }
    let others = |queue: &u16| !patient.queues.contains(queue) || !patient.is_running();
    let unserved: Vec<u16> = (rule.first..=rule.last)
        .filter(|queue| others(queue) && !is_served(*queue))
        .collect();
    for queues in ranges(&unserved) {
        tell_unserved(rule, queues, ours.then_some(patient), findings);
    }
}

/// Returns true if a process is bound to a queue; an unreadable queue counts as served.
fn is_served(queue: u16) -> bool {
    queue::proc::figures(queue) != Err(nix::errno::Errno::ENOENT)
}

/// Groups consecutive queues into ranges.
/// - queues: in ascending order.
pub fn ranges(queues: &[u16]) -> Vec<Queues> {
    let mut ranges: Vec<Queues> = Vec::new();
    for queue in queues {
        match ranges.last_mut() {
            Some(range) if range.1.checked_add(1) == Some(*queue) => range.1 = *queue,
            _ => ranges.push(Queues(*queue, *queue)),
        }
    }
    ranges
}

/// Reports queues of a rule that no process is bound to.
/// - patient: firewall under examination, if the rule leads to one of its queues.
fn tell_unserved(
    rule: &QueueRule,
    queues: Queues,
    patient: Option<&Patient>,
    findings: &mut Findings,
) {
    let what = format!("no process serves {} of \"{}\"", queues.words(), rule.text);
    let start = format!("rust-firewall --queue {}", queues.option());
    match (rule.bypass, patient) {
        // The firewall runs and never serves these queues.
        (bypass, Some(patient)) if patient.is_running() => findings.warning(
            match bypass {
                true => format!("{what}: its packets pass"),
                false => format!("{what}: its packets are dropped"),
            },
            cure::replace(rule, all_queues(patient), bypass),
        ),
        (true, _) => findings.note(format!("{what}: its packets pass"), start),
        // No firewall serves these queues yet.
        (false, Some(_)) => findings.note(
            format!("{what}: its packets are dropped until a firewall starts"),
            start,
        ),
        (false, None) => findings.warning(
            format!("{what}: its packets are dropped"),
            cure::delete(&rule.text),
        ),
    }
}

fn check_backends(tables: &[Table], findings: &mut Findings) {
    let has = |legacy: bool| {
        let mut of_it = tables
            .iter()
            .filter(|table| table.tool.ends_with("legacy") == legacy);
        of_it.any(ruleset::has_rules)
    };
    if has(true) && has(false) {
        findings.warning(
            "there are rules in legacy iptables and in nf_tables: each hook asks both, in an order \
             that no tool shows",
            "sudo sh -c 'iptables-legacy-save; ip6tables-legacy-save; nft list ruleset'  # then move the legacy rules: \
             a rule behind one that queues all packets has no effect",
        );
    }
}

/// Returns the rules for the queues under examination.
fn ours<'a>(patient: &Patient, queue_rules: &'a [QueueRule]) -> Vec<&'a QueueRule> {
    let leads = |rule: &&QueueRule| {
        let mut queues = patient.queues.iter();
        queues.any(|queue| (rule.first..=rule.last).contains(queue))
    };
    queue_rules.iter().filter(leads).collect()
}

/// Returns the range of the queues under examination.
fn all_queues(patient: &Patient) -> Queues {
    let first = patient.queues.first().copied().unwrap_or(0);
    Queues(first, patient.queues.last().copied().unwrap_or(first))
}

/// Reports queues without a rule. The cure changes the rules for the examined queues, so that each leads to all of
/// them: another rule after them would get no packet, and both directions of a connection must reach the same queue.
/// - add: returns a command that adds rules for hooks; the cure if no rule leads to one of the examined queues.
fn tell_uncovered(
    uncovered: &[u16],
    queue_rules: &[QueueRule],
    add: impl Fn(&[&str]) -> String,
    patient: &Patient,
    findings: &mut Findings,
) {
    let all = all_queues(patient);
    let ours = ours(patient, queue_rules);
    let command = match ours.as_slice() {
        [] => add(&patient.hooks()),
        some => cure::replace_all(some, all),
    };
    for queues in ranges(uncovered) {
        let what = format!("no rule leads packets to {}", queues.words());
        match patient.is_running() {
            true => findings.error(format!("{what}: the firewall sees none"), command.clone()),
            false => findings.note(what, command.clone()),
        }
    }
}

/// Checks that a policy that reads names gets both directions of a connection, in one queue.
/// - add: returns a command that adds rules for hooks.
fn check_directions(
    queue_rules: &[QueueRule],
    add: impl Fn(&[&str]) -> String,
    patient: &Patient,
    findings: &mut Findings,
) {
    let ours = ours(patient, queue_rules);
    let (true, Some(first)) = (patient.reads_names(), ours.first()) else {
        return;
    };
    let others = |rule: &&&QueueRule| (rule.first, rule.last) != (first.first, first.last);
    if let Some(other) = ours.iter().find(others) {
        findings.error(
            format!(
                "\"{}\" leads to {}, and \"{}\" to {}: a policy that reads names needs both directions of a connection \
                 in one queue",
                first.text,
                Queues(first.first, first.last).words(),
                other.text,
                Queues(other.first, other.last).words()
            ),
            cure::replace_all(&ours, all_queues(patient)),
        );
    }
    let has = |hook: &str| ours.iter().any(|rule| rule.hook == hook);
    let missing = match (has("input"), has("output")) {
        (true, false) => "output",
        (false, true) => "input",
        _ => return,
    };
    // Forwarded packets pass each of these hooks in both directions.
    if !["forward", "prerouting", "postrouting"]
        .iter()
        .any(|hook| has(hook))
    {
        findings.error(
            format!(
                "no rule of the hook {missing} leads to the queues: a policy that reads names needs both directions of a \
                 connection"
            ),
            add(&[missing]),
        );
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    if !rights::has_net_admin() {
        findings.unseen("the rules that lead packets to queues: that needs root");
        return;
    }
    let (tables, unread) = tools::gather();
    for (tool, why) in &unread {
        findings.unseen(format!("rules of {tool}: it {why}"));
    }
    check_backends(&tables, findings);
    flows::check(&tables, findings);
    let queue_rules: Vec<QueueRule> = tables.iter().flat_map(ruleset::queue_rules).collect();
    for rule in &queue_rules {
        check_rule(rule, patient, findings);
    }
    if patient.is_running() {
        before::check(patient, &queue_rules, findings);
    }
    let mut uncovered = Vec::new();
    for queue in &patient.queues {
        let mut of_it = queue_rules
            .iter()
            .filter(|rule| (rule.first..=rule.last).contains(queue));
        match of_it.next() {
            Some(rule) => findings.ok(format!("queue {queue} has a rule: \"{}\"", rule.text)),
            None => uncovered.push(*queue),
        }
    }
    let bypass = patient.crash_open() == Some(true);
    let add = |hooks: &[&str]| cure::add(cure::has_nft_queue(), all_queues(patient), bypass, hooks);
    if unread.iter().any(|(tool, _)| *tool == "nft") {
        // A rule for queues that have one already would divide their packets.
        for queues in ranges(&uncovered) {
            findings.unseen(format!(
                "whether a rule leads packets to {}: rules of nft are not to be seen",
                queues.words()
            ));
        }
    } else {
        tell_uncovered(&uncovered, &queue_rules, add, patient, findings);
    }
    if uncovered.is_empty() {
        check_directions(&queue_rules, add, patient, findings);
    }
    if patient.is_running() {
        boot::check(patient, &queue_rules, findings);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use rust_firewall::options::{self, OptionsAction};

    use super::super::{iptables, nft};
    use super::*;

    /// Returns true if doctor warns about the first queue rule of a table, for a stopped firewall with --fail closed.
    fn is_warned_of(table: &Table) -> bool {
        let words = [options::PROGRAM, "--queue", "0"].map(OsString::from);
        let Ok(OptionsAction::Run(options)) = options::parse(&words) else {
            panic!("no options");
        };
        let patient = Patient {
            status: None,
            writer: None,
            options: Some(options),
            queues: vec![0],
        };
        let mut findings = Findings::default();
        check_rule(&ruleset::queue_rules(table)[0], &patient, &mut findings);
        findings.any()
    }

    #[test]
    fn the_bypass_of_resets_is_meant() {
        for (matches, expected) in [
            ("-m mark --mark 0x80020000/0xffff0000 ", false),
            ("-m mark --mark 0x80000000/0xffff0000 ", true),
            ("", true),
        ] {
            let rule = format!("-A OUTPUT {matches}-j NFQUEUE --queue-num 0 --queue-bypass");
            let text = format!("*mangle\n:OUTPUT ACCEPT [0:0]\n{rule}\nCOMMIT\n");
            let tables = iptables::parse("iptables", &text);
            assert_eq!(is_warned_of(&tables[0]), expected, "{rule}");
        }
        let text = format!(
            r#"{{"nftables":[{{"table":{{"family":"inet","name":"t"}}}},
            {{"chain":{{"family":"inet","table":"t","name":"o","hook":"output"}}}},
            {{"chain":{{"family":"inet","table":"t","name":"{0}"}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"o","handle":3,"expr":[{{"goto":{{"target":"{0}"}}}}]}}}},
            {{"rule":{{"family":"inet","table":"t","chain":"{0}","handle":4,"expr":[
            {{"queue":{{"num":0,"flags":"bypass"}}}}]}}}}]}}"#,
            stage::REFUSE
        );
        assert!(!is_warned_of(&nft::parse(&text).unwrap().0[0]));
    }

    #[test]
    fn the_listing_is_of_the_rules_own_table() {
        for (table, command) in [
            ("filter", "sudo iptables -S"),
            ("mangle", "sudo iptables -t mangle -S"),
        ] {
            let text = format!("*{table}\n:INPUT ACCEPT [0:0]\n-A INPUT -j NFQUEUE\nCOMMIT\n");
            let tables = iptables::parse("iptables", &text);
            assert_eq!(show(&ruleset::queue_rules(&tables[0])[0]), command);
        }
    }
}
