// SPDX-License-Identifier: GPL-2.0-or-later
//! Failure contract: a table that shows the effect of each failure that --fail names, with the options, the kernel and
//! the queue rules at the time when the contract was made.

use serde::Serialize;

use crate::options;
use crate::options::daemon::SITUATION_NAMES;
use crate::options::{Options, OptionsSituation};
use crate::packet::verdict::Verdict;
use crate::queue;
use crate::state::queue_rules::QueueRules;

/// Row of the contract: a failure and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContractRow {
    pub situation: &'static str,
    /// Mode for the failure in --fail: open or closed.
    pub mode: &'static str,
    /// Effect of the failure, as a sentence.
    pub really: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Contract {
    pub rows: Vec<ContractRow>,
}

/// Facts about the kernel and the guard on which the failure contract (the effect of each failure of --fail) depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractFacts {
    /// Size of the first queue's receive buffer, in bytes.
    pub receive_buffer: u32,
    /// True if the kernel's counters of the queues can be read, so that a stall can be detected.
    pub figures: bool,
    /// True if the guard runs, or if no guard is wanted.
    pub guard: bool,
}

/// Returns the further effect of the kernel's rules on a packet that passes without a class (--stage), as text. The
/// text is empty without --stage, or if the packet does not pass.
/// - is_open: true if the packet passes.
fn without_class(options: &Options, is_open: bool) -> &'static str {
    match is_open && options.stage != 0 {
        true => {
            "; then dropped by the kernel's rules, unless split with --bypass or --unknown-open"
        }
        false => "",
    }
}

fn overload(options: &Options, facts: &ContractFacts) -> String {
    let is_open = options.fail_open[OptionsSituation::Overload as usize];
    let (happens, full) = match is_open {
        true => ("passes unseen: counted as unseen", "by nobody"),
        false => ("dropped: counted as user drop", "as queue full"),
    };
    let then = without_class(options, is_open);
    format!(
        "{happens} if the socket's {} bytes are full, {full} if {} packets wait{then}",
        facts.receive_buffer, options.queue_length
    )
}

fn accepted_or_dropped(options: &Options, situation: OptionsSituation) -> &'static str {
    match options.fail_open[situation as usize] {
        true => "accepted",
        false => "dropped",
    }
}

fn stall(options: &Options, facts: &ContractFacts) -> String {
    let file = queue::proc::QUEUES;
    let happens = accepted_or_dropped(options, OptionsSituation::Stall);
    match options.deadline_ms {
        0 => "waits for ever: --deadline is 0".to_owned(),
        _ if !facts.figures => format!("waits for ever: {file} can't be read"),
        _ if !facts.guard => "waits for ever: the guard has ended".to_owned(),
        deadline => {
            let is_open = options.fail_open[OptionsSituation::Stall as usize];
            let then = without_class(options, is_open);
            format!("{happens} by the guard when none was answered for {deadline} ms{then}")
        }
    }
}

/// Returns the effect of the queue rules while no process owns the queue.
fn rules(options: &Options, queue_rules: &QueueRules) -> String {
    let known = match (queue_rules.plain, queue_rules.bypass) {
        (true, true) => "rules with a bypass let packets pass, others drop them",
        (true, false) => "the rules drop packets: they have no bypass",
        (false, true) if options.stage != 0 => "names are not known yet: the rules have a bypass",
        (false, true) => "packets pass: the rules have a bypass",
        (false, false) if !queue_rules.unknown.is_empty() => "the rules decide",
        (false, false) => "the rules decide, of which there is none for this queue yet",
    };
    match queue_rules.unknown.as_str() {
        "" => known.to_owned(),
        unknown => format!("{known}, as far as can be known: {unknown}"),
    }
}

fn crash(options: &Options, queue_rules: &QueueRules, facts: &ContractFacts) -> String {
    let left_to_rules = format!(
        "waiting packets are dropped, then {}",
        rules(options, queue_rules)
    );
    match options.fail_open[OptionsSituation::Crash as usize] {
        true if facts.guard => {
            let then = without_class(options, true);
            format!("the guard accepts everything until SIGTERM or the next start{then}")
        }
        true => format!("the guard has ended: {left_to_rules}"),
        false => left_to_rules,
    }
}

fn malformed(options: &Options) -> String {
    match options.malformed_by_policy {
        true => "the policy decides: --malformed policy".to_owned(),
        false => {
            let happens = accepted_or_dropped(options, OptionsSituation::Malformed);
            let bytes = options.copy_bytes;
            let is_open = options.fail_open[OptionsSituation::Malformed as usize];
            let then = without_class(options, is_open);
            format!("{happens}, counted by reason, as far as the first {bytes} bytes show{then}")
        }
    }
}

fn truncated(options: &Options) -> String {
    let happens = accepted_or_dropped(options, OptionsSituation::Truncated);
    let policy = match options.policy {
        Some(_) => " or undecidable",
        None => "",
    };
    let is_open = options.fail_open[OptionsSituation::Truncated as usize];
    let then = without_class(options, is_open);
    format!("{happens}, counted as truncated{policy}{then}")
}

fn unknown(options: &Options) -> String {
    let happens = accepted_or_dropped(options, OptionsSituation::Unknown);
    let bytes = options.undecided_bytes;
    match options.policy {
        None => "never: there is no policy".to_owned(),
        // --fail unknown and the verdict of --undecided have no effect here: the kernel's rules decide as they were
        // split.
        Some(_) if options.stage != 0 => format!(
            "dropped at the kernel's first rule that reads it, as beyond {bytes} undecided bytes each way, unless \
             split with --unknown-open; before these bytes as split with --undecided"
        ),
        Some(_) if options.undecided_verdict == Verdict::Accept => format!(
            "{happens} at the first rule that reads it, as beyond {bytes} undecided bytes each way"
        ),
        Some(_) => format!("{happens} at the first rule that reads it"),
    }
}

fn really(
    situation: OptionsSituation,
    options: &Options,
    queue_rules: &QueueRules,
    facts: &ContractFacts,
) -> String {
    match situation {
        OptionsSituation::Overload => overload(options, facts),
        OptionsSituation::Stall => stall(options, facts),
        OptionsSituation::Crash => crash(options, queue_rules, facts),
        OptionsSituation::Malformed => malformed(options),
        OptionsSituation::Truncated => truncated(options),
        OptionsSituation::Unknown => unknown(options),
    }
}

/// Computes the effect of each failure that --fail names, and returns the contract. Has no side effects.
pub fn make(options: &Options, queue_rules: &QueueRules, facts: &ContractFacts) -> Contract {
    let row = |(situation, name): &(OptionsSituation, &'static str)| ContractRow {
        situation: name,
        mode: options::daemon::mode_name(options.fail_open[*situation as usize]),
        really: really(*situation, options, queue_rules, facts),
    };
    Contract {
        rows: SITUATION_NAMES.iter().map(row).collect(),
    }
}

/// Prints the contract as a table, one line per failure.
pub fn print(out: &mut String, contract: &Contract) {
    for row in &contract.rows {
        let ContractRow {
            situation,
            mode,
            really,
        } = row;
        out.push_str(&format!("  {situation:<9}  {mode:<6}  {really}\n"));
    }
}
