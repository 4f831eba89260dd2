// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds packets that met a queue rule and were dropped by the kernel before they had an id: the firewall's ledger
//! begins with the id. The counters of the rules and of the queues are read twice.

use std::thread;
use std::time::Duration;

use rust_firewall::queue;

use super::finding::Findings;
use super::ruleset::QueueRule;
use super::tools;
use super::Patient;
use crate::units::{count, thousands};

/// Time between the two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the number of packets that matched the rules for these queues. None if one of the rules has no counter.
fn met(queue_rules: &[QueueRule], queues: &[u16]) -> Option<u64> {
    let ours = |rule: &&QueueRule| {
        let mut queues = queues.iter();
        queues.any(|queue| (rule.first..=rule.last).contains(queue))
    };
    let ours = queue_rules.iter().filter(ours);
    ours.map(|rule| rule.packets).sum()
}

/// Returns the number of packets that were sent to the queues, or that they had no room for. The kernel's counters
/// wrap.
fn offered(queues: &[u16]) -> Option<u32> {
    let mut sum = 0_u32;
    for queue in queues {
        let figures = queue::proc::figures(*queue).ok()?;
        sum = sum
            .wrapping_add(figures.offered)
            .wrapping_add(figures.queue_full);
    }
    Some(sum)
}

/// Reads the counters twice, those of the queues before and after those of the rules: packets on their way are then not
/// counted as lost.
pub fn check(patient: &Patient, queue_rules: &[QueueRule], findings: &mut Findings) {
    let queues = &patient.queues;
    let before = (offered(queues), met(&tools::queue_rules(), queues));
    let (Some(offered_before), Some(met_before)) = before else {
        if !queue_rules.is_empty() {
            findings.unseen(
                "whether packets are lost between the rules and the queues: a rule has no counter",
            );
        }
        return;
    };
    thread::sleep(INTERVAL);
    let after = (met(&tools::queue_rules(), queues), offered(queues));
    let (Some(met_after), Some(offered_after)) = after else {
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
