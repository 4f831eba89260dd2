// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds packets that met a queue rule and were dropped by the kernel before they had an id: the firewall's ledger
//! begins with the id. The counters of the rules and of the queues are read twice.

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

/// Returns the number of packets that matched the rules for these queues. Fails if one of the rules has no counter.
fn met(queue_rules: &[QueueRule], queues: &[u16]) -> Result<u64, String> {
    let ours = |rule: &&QueueRule| {
        let mut queues = queues.iter();
        queues.any(|queue| (rule.first..=rule.last).contains(queue))
    };
    let ours = queue_rules.iter().filter(ours);
    let sum = ours.map(|rule| rule.packets).sum::<Option<u64>>();
    sum.ok_or_else(|| "a rule has no counter".to_owned())
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

    #[test]
    fn the_missing_counter_is_named() {
        let why = offered(&[u16::MAX]).unwrap_err();
        assert_eq!(why, "no process serves queue 65535");
        let rule = QueueRule {
            tool: "iptables",
            hook: "input".to_owned(),
            text: String::new(),
            number: 1,
            first: 0,
            last: 0,
            bypass: false,
            packets: None,
            blocked: None,
            skipped: Vec::new(),
        };
        let why = met(std::slice::from_ref(&rule), &[0]).unwrap_err();
        assert_eq!(why, "a rule has no counter");
        assert_eq!(met(&[rule], &[5]), Ok(0));
    }
}
