// SPDX-License-Identifier: GPL-2.0-or-later
//! Output of `explain --json`. It is written without a library, because keys have a fixed order and times a fixed
//! number of decimals.

use std::fmt::Write as _;

use crate::engine::compile;
use crate::engine::types::{CompilePlace, DecideBy, DecideStep, DecideWhy};
use crate::explain::describe;
use crate::explain::trace::{self, TraceItem};
use crate::explain::types::{self, Explain, Explained};
use crate::packet;
use crate::packet::verdict;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Returns a text as a JSON string (RFC 8259 section 7).
fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn place(explain: &Explain, place: CompilePlace) -> String {
    string(&describe::place(&explain.policy, place))
}

/// Returns a JSON string: `before`, then family, table and name of a chain.
/// - place: position of the chain, or of a rule in the chain.
fn chain(explain: &Explain, place: CompilePlace, before: &str) -> String {
    let chain = describe::chain(&explain.policy, place);
    string(&format!("{before}{chain}"))
}

fn why(explain: &Explain, step: &DecideStep) -> String {
    if step.why == DecideWhy::Held {
        return "null".to_owned();
    }
    let interface_name = |index| types::interface(explain, index);
    string(&describe::why(
        &explain.policy,
        step,
        &explain.shown,
        &interface_name,
    ))
}

fn reply(explained: &Explained) -> String {
    match explained.outcome.reject {
        Some(reject) if explained.has_reply => {
            string(&describe::reply(&reject, explained.packet.version))
        }
        _ => "null".to_owned(),
    }
}

fn by(explain: &Explain, explained: &Explained) -> String {
    let compiled = &explain.daemon.compiled;
    let outcome = &explained.outcome;
    match outcome.by {
        DecideBy::Rule => place(explain, compile::rule_at(compiled, outcome.rule)),
        DecideBy::Policy => {
            let place = compile::chain_at(compiled, outcome.chain);
            chain(explain, place, "policy ")
        }
        DecideBy::Default => "\"default\"".to_owned(),
        DecideBy::Fail => "\"fail\"".to_owned(),
        DecideBy::Undecided => "\"undecided\"".to_owned(),
        DecideBy::Connection => "\"connection\"".to_owned(),
    }
}

fn rule(explain: &Explain, step: &DecideStep) -> String {
    let policy = &explain.policy;
    format!(
        "{{\"rule\":{},\"chain\":{},\"held\":{},\"of\":{},\"matched\":{},\"why\":{}}}",
        place(explain, step.place),
        chain(explain, step.place, ""),
        step.place.statement,
        describe::rule(policy, step.place).map_or(0, |rule| rule.statements.len()),
        step.why == DecideWhy::Held,
        why(explain, step)
    )
}

fn rules(explain: &Explain) -> String {
    let steps = explain.trace.items.iter().filter_map(|item| match item {
        TraceItem::Rule(step) => Some(rule(explain, step)),
        TraceItem::Chain { .. } => None,
    });
    let steps: Vec<String> = steps.collect();
    steps.join(",")
}

fn recorded(explained: &Explained) -> String {
    let name = explained.recorded.map(verdict::name);
    name.map_or("null".to_owned(), string)
}

/// Returns the current packet's number, time, verdict and trace as one line of JSON, with its line end.
pub fn packet(explain: &Explain, explained: &Explained) -> String {
    let outcome = &explained.outcome;
    let time_ns = explained.time_ns.unsigned_abs();
    let miss = trace::nearest_miss(&explain.trace, &explain.policy, outcome.verdict);
    let mark = match outcome.mark_set {
        true => outcome.mark.to_string(),
        false => "null".to_owned(),
    };
    format!(
        "{{\"packet\":{},\"time\":{}{}.{:09},\"verdict\":\"{}\",\"mark\":{mark},\"reject\":{},\
         \"by\":{},\"status\":\"{}\",\"rules\":[{}],\"nearest_miss\":{},\
         \"recorded\":{}}}\n",
        explained.number,
        if explained.time_ns < 0 { "-" } else { "" },
        time_ns / NS_PER_SECOND,
        time_ns % NS_PER_SECOND,
        verdict::name(outcome.verdict),
        reply(explained),
        by(explain, explained),
        packet::status_name(explained.status),
        rules(explain),
        miss.map_or("null".to_owned(), |miss| place(explain, miss.place)),
        recorded(explained)
    )
}

/// Returns the summary of all packets (the policy's counters, and sums) as one line of JSON, with its line end.
pub fn end(explain: &Explain) -> String {
    let sums = &explain.sums;
    let counters = (0..compile::counters(&explain.daemon.compiled)).map(|counter| {
        let (of, figures) = types::counter(explain, counter);
        format!(
            "{{\"rule\":{},\"statement\":{},\"packets\":{},\"bytes\":{}}}",
            place(explain, of),
            of.statement,
            figures.packets,
            figures.bytes
        )
    });
    let counters: Vec<String> = counters.collect();
    format!(
        "{{\"counters\":[{}],\"packets\":{},\"accepted\":{},\"dropped\":{},\"rejected\":{},\
         \"skipped\":{},\"recorded\":{},\"different\":{},\"damaged\":{}}}\n",
        counters.join(","),
        sums.packets,
        sums.accepted,
        sums.dropped,
        sums.rejected,
        explain.skipped,
        sums.recorded,
        sums.different,
        sums.damaged
    )
}
