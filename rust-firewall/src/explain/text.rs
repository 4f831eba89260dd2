// SPDX-License-Identifier: GPL-2.0-or-later
//! Output of `explain` as text.

use std::fmt::Write as _;

use crate::engine::compile;
use crate::engine::types::{CompilePlace, DecideBy, DecideStep, DecideWhy};
use crate::explain::describe;
use crate::explain::trace::{self, TraceItem};
use crate::explain::types::{self, Explain, Explained};
use crate::options;
use crate::options::OptionsSituation;
use crate::packet;
use crate::packet::verdict::{self, Verdict};

/// Number of columns per level of indentation.
const STEP: usize = 2;
/// Number of levels by which a chain is indented more than the chain from which a rule led to it.
const STEPS_OF_A_JUMP: usize = 2;
const NS_PER_US: u64 = 1000;

/// Returns the length of the longest rule position ("FILE:LINE"), in bytes.
fn widest(explain: &Explain, places: impl Iterator<Item = CompilePlace>) -> usize {
    let widths = places.map(|place| describe::place(&explain.policy, place).len());
    widths.max().unwrap_or(0)
}

fn why(explain: &Explain, step: &DecideStep) -> String {
    let text = describe::rule_text(&explain.policy, step.place);
    if step.why == DecideWhy::Held {
        return text;
    }
    let interface_name = |index| types::interface(explain, index);
    let why = describe::why(&explain.policy, step, &explain.shown, &interface_name);
    format!("{text} | {why}")
}

/// Returns the word that shows whether a rule matched: "yes", "no", or "may" if that depends on an unknown value.
fn matched(step: &DecideStep) -> &'static str {
    match step.why {
        _ if step.may => "may",
        DecideWhy::Held => "yes",
        _ => "no ",
    }
}

fn put_item(out: &mut String, explain: &Explain, item: &TraceItem, width: usize) {
    let indent = |depth: u32| STEP + depth as usize * STEP * STEPS_OF_A_JUMP;
    let _ = match item {
        TraceItem::Chain { place, depth } => {
            let chain = describe::chain(&explain.policy, *place);
            writeln!(out, "{}chain {chain}", " ".repeat(indent(*depth)))
        }
        TraceItem::Rule(step) => {
            let place = describe::place(&explain.policy, step.place);
            writeln!(
                out,
                "{}{}  {}  {}",
                " ".repeat(indent(step.depth) + STEP),
                describe::place_padded(&place, width),
                matched(step),
                why(explain, step)
            )
        }
    };
}

fn put_trace(out: &mut String, explain: &Explain) {
    let items = &explain.trace.items;
    let places = items.iter().filter_map(|item| match item {
        TraceItem::Rule(step) => Some(step.place),
        TraceItem::Chain { .. } => None,
    });
    let width = widest(explain, places);
    for item in items {
        put_item(out, explain, item, width);
    }
}

fn fail(explain: &Explain, explained: &Explained) -> String {
    let outcome = &explained.outcome;
    let (situation, cause) = if outcome.undecidable {
        let cause = "the bytes that the policy reads were not copied".to_owned();
        (OptionsSituation::Truncated, cause)
    } else if outcome.undecided {
        let cause = "the name that the policy reads can't be read".to_owned();
        (OptionsSituation::Unknown, cause)
    } else {
        let cause = format!("malformed ({})", packet::status_name(explained.status));
        (OptionsSituation::Malformed, cause)
    };
    let mode = options::daemon::mode_name(explain.options.fail_open[situation as usize]);
    format!("{}: {cause}, --fail {mode}", verdict::name(outcome.verdict))
}

fn by(explain: &Explain, explained: &Explained) -> String {
    let compiled = &explain.daemon.compiled;
    let outcome = &explained.outcome;
    match outcome.by {
        DecideBy::Rule => {
            let place = compile::rule_at(compiled, outcome.rule);
            format!(" by {}", describe::place(&explain.policy, place))
        }
        DecideBy::Policy => {
            let place = compile::chain_at(compiled, outcome.chain);
            let chain = describe::chain(&explain.policy, place);
            format!(" by the policy of chain {chain}")
        }
        DecideBy::Default => " by --default".to_owned(),
        DecideBy::Undecided => " by --undecided".to_owned(),
        DecideBy::Connection => ": its connection was refused".to_owned(),
        DecideBy::Fail => String::new(),
    }
}

fn put_verdict(out: &mut String, explain: &Explain, explained: &Explained) {
    let outcome = &explained.outcome;
    out.push_str("  ");
    match outcome.by {
        DecideBy::Fail => out.push_str(&fail(explain, explained)),
        _ => out.push_str(verdict::name(outcome.verdict)),
    }
    if let (Verdict::Reject, Some(reject)) = (outcome.verdict, outcome.reject) {
        if explained.has_reply {
            let reply = describe::reply(&reject, explained.packet.version);
            let _ = write!(out, " with {reply}");
        } else {
            out.push_str(" without a reply");
        }
    }
    out.push_str(&by(explain, explained));
    if outcome.mark_set {
        let _ = write!(out, ", mark 0x{:08x}", outcome.mark);
    }
    out.push('\n');
}

/// Prints the verdict that the capture records for the packet, if the policy's verdict differs from it.
fn put_recorded(out: &mut String, explained: &Explained) {
    let recorded = explained.recorded.filter(|_| types::differs(explained));
    if let Some(recorded) = recorded {
        let _ = writeln!(out, "  recorded otherwise: {}", verdict::name(recorded));
    }
}

fn put_miss(out: &mut String, explain: &Explain, explained: &Explained) {
    let verdict = explained.outcome.verdict;
    if let Some(miss) = trace::nearest_miss(&explain.trace, &explain.policy, verdict) {
        let place = describe::place(&explain.policy, miss.place);
        let _ = writeln!(out, "  nearest miss {place}: {}", why(explain, &miss));
    }
}

/// Returns the current packet, its trace, its verdict and the nearest miss as text.
pub fn packet(explain: &Explain, explained: &Explained) -> String {
    let mut out = String::new();
    let time_us = explained.time_ns.unsigned_abs() / NS_PER_US;
    let sign = if explained.time_ns < 0 { "-" } else { "" };
    let _ = writeln!(
        out,
        "packet {} at {sign}{}.{:06}: {}",
        explained.number,
        time_us / 1_000_000,
        time_us % 1_000_000,
        describe::packet(&explained.packet, explained.status)
    );
    put_trace(&mut out, explain);
    put_verdict(&mut out, explain, explained);
    put_recorded(&mut out, explained);
    put_miss(&mut out, explain, explained);
    out
}

fn put_counters(out: &mut String, explain: &Explain) {
    let counters = 0..compile::counters(&explain.daemon.compiled);
    let place_of = |counter| types::counter(explain, counter).0;
    let width = widest(explain, counters.clone().map(place_of));
    if !counters.is_empty() {
        out.push_str("counters\n");
    }
    for counter in counters {
        let (place, figures) = types::counter(explain, counter);
        let _ = writeln!(
            out,
            "  {}  packets {} bytes {}  {}",
            describe::place_padded(&describe::place(&explain.policy, place), width),
            figures.packets,
            figures.bytes,
            describe::rule_text(&explain.policy, place)
        );
    }
}

/// Returns the summary of all packets (the policy's counters, and sums) as text.
pub fn end(explain: &Explain) -> String {
    let mut out = String::new();
    let sums = &explain.sums;
    put_counters(&mut out, explain);
    let _ = writeln!(
        out,
        "{} packets: {} accepted, {} dropped, {} rejected",
        sums.packets, sums.accepted, sums.dropped, sums.rejected
    );
    if explain.skipped > 0 {
        let _ = writeln!(out, "skipped {} frames that are not IP", explain.skipped);
    }
    if sums.recorded > 0 {
        let _ = writeln!(
            out,
            "recorded verdicts: {}, {} different",
            sums.recorded, sums.different
        );
    }
    if sums.damaged > 0 {
        let _ = writeln!(
            out,
            "damaged comments: {}: the options replace them",
            sums.damaged
        );
    }
    out
}
