// SPDX-License-Identifier: GPL-2.0-or-later
//! What one process tells another in an upgrade, as a line of JSON: the same bytes from both twins.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::carry::{CarryKind, CarryRule, CarrySide, KIND_COUNT};
use crate::counts;
use crate::flow::{FlowCounter, FlowLimit, FlowWord};
use crate::handover::{Handover, HandoverFd, HandoverQueue, FD_COUNT, VERSION};
use crate::log::{failure_set, Failure, LogExit};
use crate::options;
use crate::packet;
use crate::queue_adopt::QueueGiven;
use crate::stats::Stats;
use crate::verdict;

const FD_NAMES: [(HandoverFd, &str); FD_COUNT] = [
    (HandoverFd::Control, "control"),
    (HandoverFd::Metrics, "metrics"),
    (HandoverFd::Events, "events"),
];

/// The name of a descriptor's option.
pub fn fd_name(fd: HandoverFd) -> &'static str {
    FD_NAMES[fd as usize].1
}

/// All descriptors beside those of queues.
pub fn fds() -> impl Iterator<Item = HandoverFd> {
    FD_NAMES.iter().map(|(fd, _)| *fd)
}

/// The names of the counters of Stats, in the order of its fields.
fn stats_names() -> impl Iterator<Item = String> {
    let verdicts = verdict::VERDICTS.iter();
    let statuses = packet::STATUSES.iter();
    let then = ["cut", "truncated", "overruns", "refused", "undecidable"];
    let answers = ["answers-sent", "answers-not-due", "answers-failed"];
    ["received", "netlink", "bytes"]
        .map(String::from)
        .into_iter()
        .chain(verdicts.map(|(_, name)| format!("verdict-{name}")))
        .chain(statuses.map(|(_, name)| format!("malformed-{name}")))
        .chain(then.map(String::from))
        .chain(["without_ct_state"].map(String::from))
        .chain(answers.map(String::from))
}

fn stats_object<S: Serializer>(stats: &&Stats, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stats_names().zip(stats.words()))
}

fn counts_object<S: Serializer>(
    counted: &&[u64; counts::ALL.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let names = counts::ALL.iter().map(|(_, name)| name);
    serializer.collect_map(names.zip(counted.iter()))
}

#[derive(Serialize)]
struct QueueObject<'a> {
    queue: u16,
    copy_bytes: u32,
    flags: u32,
    stalled: u64,
    #[serde(serialize_with = "stats_object")]
    stats: &'a Stats,
}

fn queue_object(queue: &HandoverQueue) -> QueueObject<'_> {
    QueueObject {
        queue: queue.number,
        copy_bytes: queue.given.copy_bytes,
        flags: queue.given.flags,
        stalled: queue.stalled,
        stats: &queue.stats,
    }
}

#[derive(Serialize)]
struct LimitObject {
    nsecs: u64,
    rate: u64,
    size: i64,
    cost: i64,
    of_bytes: bool,
    empty_ns: i64,
}

fn limit_object(side: &CarrySide, index: usize) -> Option<LimitObject> {
    let limit = side.limits.get(index)?;
    Some(LimitObject {
        nsecs: limit.nsecs,
        rate: limit.rate,
        size: limit.size,
        cost: limit.cost,
        of_bytes: limit.of_bytes,
        empty_ns: side.limit_words.get(index)?.0.load(Ordering::Relaxed),
    })
}

const KIND_KEYS: [(CarryKind, &str); KIND_COUNT] = [
    (CarryKind::Counters, "counters"),
    (CarryKind::Logs, "logs"),
    (CarryKind::Limits, "limits"),
    (CarryKind::Quotas, "quotas"),
];

/// In the order of KIND_KEYS.
#[derive(Serialize)]
struct RuleObject<'a> {
    chain: &'a str,
    comment: Option<&'a str>,
    text: &'a str,
    counters: Vec<[u64; 2]>,
    logs: Vec<u64>,
    limits: Vec<LimitObject>,
    quotas: Vec<u64>,
}

/// The numbers of a rule's statements of a kind.
fn statements(rule: &CarryRule, kind: CarryKind) -> std::ops::Range<usize> {
    let first = rule.first[kind as usize] as usize;
    first..first + rule.count[kind as usize] as usize
}

fn rule_object<'a>(state: &'a Handover, rule: &'a CarryRule) -> RuleObject<'a> {
    let side = &state.side;
    let counter = |index| state.counters.get(index);
    let quota = |index| side.quota_words.get(index);
    RuleObject {
        chain: &rule.chain,
        comment: rule.comment.as_deref(),
        text: &rule.text,
        counters: statements(rule, CarryKind::Counters)
            .filter_map(counter)
            .map(|counter| [counter.packets, counter.bytes])
            .collect(),
        logs: statements(rule, CarryKind::Logs)
            .filter_map(|index| state.logged.get(index).copied())
            .collect(),
        limits: statements(rule, CarryKind::Limits)
            .filter_map(|index| limit_object(side, index))
            .collect(),
        quotas: statements(rule, CarryKind::Quotas)
            .filter_map(quota)
            .map(|word| word.0.load(Ordering::Relaxed))
            .collect(),
    }
}

#[derive(Serialize)]
struct StateObject<'a> {
    ok: bool,
    version: i64,
    pid: i64,
    generation: u32,
    control: Option<&'a str>,
    metrics: Option<&'a str>,
    events: Option<&'a str>,
    #[serde(serialize_with = "counts_object")]
    counts: &'a [u64; counts::ALL.len()],
    queues: Vec<QueueObject<'a>>,
    rules: Vec<RuleObject<'a>>,
}

/// The line of state, with its end. Descriptors and the channel are not looked at.
pub fn print(state: &Handover) -> String {
    let [control, metrics, events] = [&state.options[0], &state.options[1], &state.options[2]];
    let rules = state.side.rules.iter();
    let object = StateObject {
        ok: true,
        version: VERSION,
        pid: state.pid,
        generation: state.generation,
        control: control.as_deref(),
        metrics: metrics.as_deref(),
        events: events.as_deref(),
        counts: &state.counts,
        queues: state.queues.iter().map(queue_object).collect(),
        rules: rules.map(|rule| rule_object(state, rule)).collect(),
    };
    // It has no key that is no string, which alone could fail.
    serde_json::to_string(&object).unwrap_or_default() + "\n"
}

/// Says which part is not as it should be.
fn fail_part(part: &str) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!(
            "the old firewall's state has no good \"{part}\": is it a firewall of this kind?"
        ),
    )
}

/// A number that must be there.
fn read_number(object: &Value, key: &str, max: i64) -> Result<i64, Failure> {
    let number = object.get(key).and_then(Value::as_i64);
    number
        .filter(|number| (0..=max).contains(number))
        .ok_or_else(|| fail_part(key))
}

/// The whole number that is there, if it is one; else 0.
fn number_of(value: Option<&Value>) -> u64 {
    let number = value.and_then(Value::as_i64).unwrap_or(0);
    u64::try_from(number).unwrap_or(0)
}

fn parse_queue(object: &Value) -> Result<HandoverQueue, Failure> {
    let counted = object.get("stats").filter(|stats| stats.is_object());
    let counted = counted.ok_or_else(|| fail_part("stats"))?;
    let mut queue = HandoverQueue {
        number: read_number(object, "queue", u16::MAX.into())? as u16,
        given: QueueGiven {
            copy_bytes: read_number(object, "copy_bytes", u32::MAX.into())? as u32,
            flags: read_number(object, "flags", u32::MAX.into())? as u32,
        },
        stalled: read_number(object, "stalled", i64::MAX)? as u64,
        ..HandoverQueue::default()
    };
    for (name, word) in stats_names().zip(queue.stats.words_mut()) {
        *word = number_of(counted.get(name));
    }
    Ok(queue)
}

fn parse_queues(queues: Option<&Value>) -> Result<Vec<HandoverQueue>, Failure> {
    match queues.and_then(Value::as_array) {
        Some(queues) if !queues.is_empty() && queues.len() <= options::QUEUES_MAX as usize => {
            queues.iter().map(parse_queue).collect()
        }
        _ => Err(fail_part("queues")),
    }
}

fn parse_limit(object: &Value, side: &mut CarrySide) {
    let number = |key| number_of(object.get(key));
    let empty_ns = object.get("empty_ns").and_then(Value::as_i64).unwrap_or(0);
    side.limits.push(FlowLimit {
        nsecs: number("nsecs"),
        rate: number("rate"),
        size: number("size") as i64, // which it was read as
        cost: number("cost") as i64,
        of_bytes: object.get("of_bytes") == Some(&Value::Bool(true)),
        over: false,
    });
    let word = Arc::new(FlowWord(AtomicI64::new(empty_ns)));
    side.limit_words.push(word);
}

fn parse_statement(state: &mut Handover, kind: CarryKind, value: &Value) {
    match kind {
        CarryKind::Counters => state.counters.push(FlowCounter {
            packets: number_of(value.get(0)),
            bytes: number_of(value.get(1)),
        }),
        CarryKind::Logs => state.logged.push(number_of(Some(value))),
        CarryKind::Limits => parse_limit(value, &mut state.side),
        CarryKind::Quotas => {
            let word = Arc::new(FlowWord(AtomicU64::new(number_of(Some(value)))));
            state.side.quota_words.push(word);
        }
    }
}

fn text_of(object: &Value, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

/// Reads a rule with its statements. next: how many of each kind there are in the rules before;
/// counted up.
fn parse_rule(
    object: &Value,
    next: &mut [u32; KIND_COUNT],
    state: &mut Handover,
) -> Result<(), Failure> {
    let mut rule = CarryRule {
        chain: text_of(object, "chain").ok_or_else(|| fail_part("rules"))?,
        comment: text_of(object, "comment"),
        text: text_of(object, "text").ok_or_else(|| fail_part("rules"))?,
        first: *next,
        count: [0; KIND_COUNT],
    };
    for (kind, key) in KIND_KEYS {
        let list = object.get(key).and_then(Value::as_array);
        for value in list.into_iter().flatten() {
            parse_statement(state, kind, value);
            rule.count[kind as usize] += 1;
            next[kind as usize] += 1;
        }
    }
    state.side.rules.push(rule);
    Ok(())
}

fn parse_rules(rules: Option<&Value>, state: &mut Handover) -> Result<(), Failure> {
    let rules = rules.and_then(Value::as_array);
    let mut next = [0; KIND_COUNT];
    for object in rules.ok_or_else(|| fail_part("rules"))? {
        parse_rule(object, &mut next, state)?;
    }
    Ok(())
}

/// Says why the other one refuses, on one line whatever it says.
fn fail_refused(object: &Value) -> Failure {
    let error = object.get("error").and_then(Value::as_str);
    let error = error.unwrap_or("it does not say why");
    let text = format!("the old firewall gives nothing away: {error}");
    failure_set(
        LogExit::Call,
        text.replace(|c: char| c.is_ascii_control(), "?"),
    )
}

fn parse_object(object: &Value, state: &mut Handover) -> Result<(), Failure> {
    if object.get("ok") == Some(&Value::Bool(false)) {
        return Err(fail_refused(object));
    }
    let version = read_number(object, "version", i64::MAX)?;
    state.pid = read_number(object, "pid", i32::MAX.into())?;
    state.generation = read_number(object, "generation", u32::MAX.into())? as u32;
    if version != VERSION {
        return Err(fail_part("version"));
    }
    for ((_, name), option) in FD_NAMES.iter().zip(&mut state.options) {
        *option = text_of(object, name);
    }
    let counted = object.get("counts");
    for ((_, name), count) in counts::ALL.iter().zip(&mut state.counts) {
        *count = number_of(counted.and_then(|counted| counted.get(name)));
    }
    state.queues = parse_queues(object.get("queues"))?;
    parse_rules(object.get("rules"), state)
}

/// Reads a line of state. What it does not know it leaves out, and counters that it does not find
/// stand at 0: it may come from another version. Fails with what the other one refuses, or because it
/// is no line of state.
pub fn parse(line: &[u8], state: &mut Handover) -> Result<(), Failure> {
    match serde_json::from_slice::<Value>(line) {
        Ok(object) if object.is_object() => parse_object(&object, state),
        _ => Err(failure_set(
            LogExit::Call,
            "what answers there is no firewall: give --take-over the path of a firewall's --control",
        )),
    }
}
