// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy's part of the start line and of the ledger.

use std::fmt::Write as _;

use serde::Serialize;

use crate::engine::compile;
use crate::engine::flow::FlowCounter;
use crate::explain::describe;
use crate::options::{self, Options, OptionsConntrack};
use crate::policy::requirement::Requirement;
use crate::ruleset::tally::Tally;
use crate::spec::counter::CounterText;
use crate::state::report_counters;
use crate::worker::stats::Stats;

fn malformed_name(options: &Options) -> &'static str {
    if options.malformed_by_policy {
        "policy"
    } else {
        "fail"
    }
}

/// Returns the name of the source from which packets get ct state: mark or attribute. The option's value auto means
/// attribute.
fn conntrack_name(options: &Options) -> &'static str {
    options::conntrack_name(match options.conntrack {
        OptionsConntrack::Mark => OptionsConntrack::Mark,
        OptionsConntrack::Auto | OptionsConntrack::Attribute => OptionsConntrack::Attribute,
    })
}

fn policy_name(options: &Options) -> &str {
    options.policy.as_deref().unwrap_or_default()
}

/// Prints the end of the start line: --malformed, the policy's file, the packet data that the policy needs, and whether
/// it rejects.
pub fn print_start(out: &mut String, options: &Options, requirement: &Requirement) {
    let _ = write!(
        out,
        ", malformed {}, policy {}: reads {} bytes",
        malformed_name(options),
        policy_name(options),
        requirement.copy_bytes
    );
    if requirement.uid_gid {
        out.push_str(", uid and gid");
    }
    if requirement.conntrack_state {
        let _ = write!(out, ", ct state by {}", conntrack_name(options));
    }
    if requirement.conntrack_mark {
        out.push_str(", ct mark");
    }
    if requirement.interface_names {
        out.push_str(", interface names");
    }
    if requirement.reject {
        out.push_str("; rejects");
    }
}

/// Prints each counter and log statement: its place, its counts and its rule.
fn print_rules(out: &mut String, tally: &Tally) {
    let counters = 0..compile::counters(tally.compiled);
    let logs = 0..compile::logs(tally.compiled);
    let counters = counters.map(|counter| compile::counter_at(tally.compiled, counter));
    let logs = logs.map(|log| compile::log_at(tally.compiled, log));
    let width = |place| describe::place(tally.policy, place).len();
    let width = counters.clone().chain(logs.clone()).map(width).max();
    let padded = |place| {
        let text = describe::place(tally.policy, place);
        describe::place_padded(&text, width.unwrap_or(0))
    };
    for (place, figures) in counters.zip(&tally.counters) {
        let _ = writeln!(
            out,
            "  {}  packets {} bytes {}  {}",
            padded(place),
            figures.packets,
            figures.bytes,
            describe::rule_text(tally.policy, place)
        );
    }
    for (place, logged) in logs.zip(&tally.logged) {
        let text = describe::rule_text(tally.policy, place);
        let _ = writeln!(out, "  {}  logged {logged}  {text}", padded(place));
    }
}

/// Prints the policy's counters of all queues, and the rules with counter and log statements.
/// - stats: sum of all queues.
pub fn print_ledger(out: &mut String, options: &Options, stats: &Stats, tally: &Tally) {
    let [sent, not_due, failed] = stats.replies;
    let _ = write!(out, "policy {}: ", policy_name(options));
    report_counters::print(out, stats, CounterText::Policy);
    let _ = writeln!(
        out,
        "; replies: sent {sent}, not due {not_due}, failed {failed}"
    );
    print_rules(out, tally);
}

/// Requirement of a policy as JSON: the packet data that it needs, and its effects.
#[derive(Serialize)]
pub struct RequirementObject {
    copy_bytes: u32,
    layer4: bool,
    uid_gid: bool,
    conntrack_state: bool,
    conntrack_mark: bool,
    interface_names: bool,
    names: bool,
    learns: bool,
    reject: bool,
}

/// Creates the JSON object of a policy's requirement.
pub fn requirement_object(requirement: &Requirement) -> RequirementObject {
    RequirementObject {
        copy_bytes: requirement.copy_bytes,
        layer4: requirement.layer4,
        uid_gid: requirement.uid_gid,
        conntrack_state: requirement.conntrack_state,
        conntrack_mark: requirement.conntrack_mark,
        interface_names: requirement.interface_names,
        names: requirement.names,
        learns: requirement.learns,
        reject: requirement.reject,
    }
}

/// Policy in the start line's JSON.
#[derive(Serialize)]
pub struct StartPolicyObject<'a> {
    malformed: &'static str,
    conntrack: Option<&'static str>,
    policy: &'a str,
    requirement: RequirementObject,
}

/// Creates the policy's part of the start line's JSON.
pub fn start_object<'a>(options: &'a Options, requirement: &Requirement) -> StartPolicyObject<'a> {
    StartPolicyObject {
        malformed: malformed_name(options),
        conntrack: (requirement.conntrack_state || requirement.conntrack_mark)
            .then(|| conntrack_name(options)),
        policy: policy_name(options),
        requirement: requirement_object(requirement),
    }
}

#[derive(Serialize)]
struct CounterObject {
    rule: String,
    statement: u32,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct LogObject {
    rule: String,
    statement: u32,
    packets: u64,
}

/// Policy in the ledger's JSON.
#[derive(Serialize)]
pub struct LedgerPolicyObject<'a> {
    file: &'a str,
    counters: Vec<CounterObject>,
    logs: Vec<LogObject>,
}

fn counters_array(tally: &Tally) -> Vec<CounterObject> {
    let object = |(counter, figures): (u32, &FlowCounter)| {
        let place = compile::counter_at(tally.compiled, counter);
        CounterObject {
            rule: describe::place(tally.policy, place),
            statement: place.statement,
            packets: figures.packets,
            bytes: figures.bytes,
        }
    };
    (0..).zip(&tally.counters).map(object).collect()
}

fn logs_array(tally: &Tally) -> Vec<LogObject> {
    let object = |(log, logged): (u32, &u64)| {
        let place = compile::log_at(tally.compiled, log);
        LogObject {
            rule: describe::place(tally.policy, place),
            statement: place.statement,
            packets: *logged,
        }
    };
    (0..).zip(&tally.logged).map(object).collect()
}

/// Creates the policy's part of the ledger's JSON.
pub fn ledger_object<'a>(options: &'a Options, tally: &Tally) -> LedgerPolicyObject<'a> {
    LedgerPolicyObject {
        file: policy_name(options),
        counters: counters_array(tally),
        logs: logs_array(tally),
    }
}
