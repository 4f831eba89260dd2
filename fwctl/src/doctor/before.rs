// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds packets that met a queue rule and were dropped by the kernel before they had an id: the firewall's ledger
//! begins with the id. The counters of the rules and of the queues are read twice.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use rust_firewall::queue;

use super::finding::Findings;
use super::ruleset::QueueRule;
use super::tools;
use super::Patient;
use crate::units::{count, thousands};

/// Time between the two readings of the counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the number of packets that matched the rules for these queues. Fails if one of the rules has no counter, or
/// leads to other queues, too.
fn met(queue_rules: &[QueueRule], queues: &[u16]) -> Result<u64, String> {
    let is_ours = |queue: u16| queues.contains(&queue);
    let (mut seen, mut sum) = (BTreeSet::new(), 0);
    for rule in queue_rules {
        let (mut all, mut any) = (rule.first..=rule.last, rule.first..=rule.last);
        // A rule is listed for each jump that leads to it.
        if !any.any(is_ours) || !seen.insert(&rule.text) {
            continue;
        }
        if !all.all(is_ours) {
            return Err(format!("\"{}\" leads to other queues, too", rule.text));
        }
        sum += rule.packets.ok_or("a rule has no counter")?;
    }
    Ok(sum)
}

/// Returns the number of packets that the kernel has tried to send to the owners of the queues, or has dropped because
/// a queue was full. The number wraps, as the kernel's counters do. Fails if one of the queues has no owner, or can't
/// be read.
fn offered(queues: &[u16]) -> Result<u32, String> {
    let mut sum = 0_u32;
    for queue in queues {
        let figures = queue::proc::figures(*queue).map_err(|error| match error {
            Errno::ENOENT => format!("no process serves queue {queue}"),
            error => format!("queue {queue}: {}", error.desc()),
        })?;
        sum = sum
            .wrapping_add(figures.offered)
            .wrapping_add(figures.queue_full);
    }
    Ok(sum)
}

/// Reports packets that matched a queue rule within a second, and came to no queue. Reads the counters twice, those of
/// the queues before and after those of the rules: packets on their way are then not counted as lost.
pub fn check(patient: &Patient, queue_rules: &[QueueRule], findings: &mut Findings) {
    let queues = &patient.queues;
    let offered_before = offered(queues);
    let before = offered_before.and_then(|sum| Ok((sum, met(&tools::queue_rules(), queues)?)));
    let (offered_before, met_before) = match before {
        Ok(before) => before,
        Err(why) => {
            if !queue_rules.is_empty() {
                findings.unseen(format!(
                    "whether packets are lost between the rules and the queues: {why}"
                ));
            }
            return;
        }
    };
    thread::sleep(INTERVAL);
    let after = (met(&tools::queue_rules(), queues), offered(queues));
    let (Ok(met_after), Ok(offered_after)) = after else {
        return;
    };
    // Counters of rules that were replaced in between start at 0.
    let met = met_after.saturating_sub(met_before);
    let offered = u64::from(offered_after.wrapping_sub(offered_before));
    if met > offered {
        findings.warning(
            format!(
                "{} of {} that met the queue rules within a second got no id: the kernel dropped \
                 them before (or let them pass by a bypass), and no ledger knows of them",
                thousands(met - offered),
                count(met, "packet")
            ),
            "sudo nft --handle list ruleset  # queue new connections in OUTPUT or INPUT",
        );
    } else if met > 0 {
        findings.ok(format!(
            "{} that met the queue rules within a second were all offered to a queue",
            count(met, "packet")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, last: u16, packets: Option<u64>) -> QueueRule {
        QueueRule {
            tool: "iptables",
            hook: "input".to_owned(),
            text: text.to_owned(),
            number: 1,
            first: 0,
            last,
            bypass: false,
            is_of_resets: false,
            packets,
            blocked: None,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn the_missing_counter_is_named() {
        let why = offered(&[u16::MAX]).unwrap_err();
        assert_eq!(why, "no process serves queue 65535");
        let rules = [rule("a", 0, None)];
        assert_eq!(met(&rules, &[0]).unwrap_err(), "a rule has no counter");
        assert_eq!(met(&rules, &[5]), Ok(0));
    }

    #[test]
    fn packets_of_other_queues_are_not_compared() {
        let rules = [rule("a", 3, Some(7))];
        let why = met(&rules, &[0]).unwrap_err();
        assert_eq!(why, "\"a\" leads to other queues, too");
        assert_eq!(met(&rules, &[0, 1, 2, 3]), Ok(7));
    }

    #[test]
    fn a_rule_behind_several_jumps_is_counted_once() {
        let rules = [rule("a", 0, Some(7)), rule("a", 0, Some(7))];
        assert_eq!(met(&rules, &[0]), Ok(7));
    }
}
