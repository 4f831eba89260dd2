// SPDX-License-Identifier: GPL-2.0-or-later
//! Trace of one packet through the policy, for `explain`: chains that it entered and rules that it was compared with,
//! in order.

use crate::engine::types::{CompilePlace, DecideRecorder, DecideStep, DecideWhy};
use crate::explain::describe;
use crate::packet::verdict::Verdict;
use crate::policy::{self, Policy, Rule, StatementKind};

/// A chain that was entered, with the number of jumps and gotos on the way to it, or a rule that was compared with the
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceItem {
    Chain { place: CompilePlace, depth: u32 },
    Rule(DecideStep),
}

#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub items: Vec<TraceItem>,
}

impl DecideRecorder for Trace {
    fn chain(&mut self, chain: CompilePlace, depth: u32) {
        self.items.push(TraceItem::Chain {
            place: chain,
            depth,
        });
    }

    fn rule(&mut self, step: &DecideStep) {
        self.items.push(TraceItem::Rule(*step));
    }
}

/// Empties the trace; its memory is reused for the next packet.
pub fn clear(trace: &mut Trace) {
    trace.items.clear();
}

/// Returns true if a rule, had it matched, could have led to another verdict.
/// - verdict: the packet's verdict.
fn leads_elsewhere(rule: &Rule, verdict: Verdict) -> bool {
    match rule.statements.last().map(|last| &last.kind) {
        Some(StatementKind::Reject(_)) => verdict != Verdict::Reject,
        Some(StatementKind::Vmap(_)) => true,
        Some(StatementKind::Verdict(target)) => match target.verdict {
            policy::Verdict::Accept => verdict != Verdict::Accept,
            policy::Verdict::Drop => verdict != Verdict::Drop,
            policy::Verdict::Jump | policy::Verdict::Goto => true,
            policy::Verdict::Continue | policy::Verdict::Return => false,
        },
        _ => false,
    }
}

/// Returns the nearest miss: of the rules that did not match and could have given another verdict, the rule with the
/// most statements that held; of equal rules the first. A rule could have given another verdict if it accepts, drops or
/// rejects and the packet has a different verdict, if it leads to another chain, or if it has a verdict map.
pub fn nearest_miss(trace: &Trace, policy: &Policy, verdict: Verdict) -> Option<DecideStep> {
    let mut nearest: Option<DecideStep> = None;
    for item in &trace.items {
        let TraceItem::Rule(step) = item else {
            continue;
        };
        let rule = describe::rule(policy, step.place);
        if step.why == DecideWhy::Held || !rule.is_some_and(|rule| leads_elsewhere(rule, verdict)) {
            continue;
        }
        if nearest.is_none_or(|nearest| step.place.statement > nearest.place.statement) {
            nearest = Some(*step);
        }
    }
    nearest
}
