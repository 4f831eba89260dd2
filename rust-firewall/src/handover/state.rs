// SPDX-License-Identifier: GPL-2.0-or-later
//! Line of state: the old process's answer to the request for an upgrade. It is JSON, with the same bytes from both
//! twins.

use serde::Serialize;
use serde_json::Value;

use crate::base::counts;
use crate::base::log::{failure_set, Failure, LogExit};
use crate::base::object;
use crate::control::request::VERSION;
use crate::handover::{Handover, HandoverFd, FD_COUNT};
use crate::options;
use crate::queue::adopt::QueueHandover;
use crate::spec::counter::COUNTER_WORDS;
use crate::worker::WorkerHandover;

/// Maximum number of names of counts, or of a queue's counters, from another process.
const NAMES_MAX: usize = 1024;

const FD_NAMES: [(HandoverFd, &str); FD_COUNT] = [
    (HandoverFd::Control, "control"),
    (HandoverFd::Events, "events"),
];

/// Returns the name of the option that a descriptor belongs to.
pub fn fd_name(fd: HandoverFd) -> &'static str {
    FD_NAMES[fd as usize].1
}

/// Returns the kinds of the descriptors that options open.
pub fn fds() -> impl Iterator<Item = HandoverFd> {
    FD_NAMES.iter().map(|(fd, _)| *fd)
}

/// Returns the names of the counters of Stats, in the order of its fields.
fn stats_names() -> impl Iterator<Item = &'static str> {
    COUNTER_WORDS.iter().map(|word| word.handover)
}

#[derive(Serialize)]
struct QueueObject {
    queue: u16,
    copy_bytes: u32,
    flags: u32,
}

#[derive(Serialize)]
struct StateObject<'a> {
    ok: bool,
    version: u64,
    pid: i64,
    generation: u32,
    control: Option<&'a str>,
    events: Option<&'a str>,
    connections: Option<u32>,
    learned: bool,
    counts: Vec<&'a str>,
    stats: Vec<&'static str>,
    queues: Vec<QueueObject>,
}

/// Returns the identity table of indexes: the element n is n. It is valid for values in the order of this process's
/// names.
/// - names: number of names.
fn make_own_places(names: usize) -> Vec<Option<usize>> {
    (0..names).map(Some).collect()
}

/// Creates a state with these queues. The indexes of its counts and counters are those of this process.
pub fn make(queues: Vec<WorkerHandover>) -> Handover {
    Handover {
        queues,
        count_places: make_own_places(counts::ALL.len()),
        stat_places: make_own_places(stats_names().count()),
        ..Handover::default()
    }
}

fn queue_object(queue: &WorkerHandover) -> QueueObject {
    QueueObject {
        queue: queue.number,
        copy_bytes: queue.handover.copy_bytes,
        flags: queue.handover.flags,
    }
}

/// Returns the state as a line of JSON with its line end. The line does not contain the descriptors and the channel.
pub fn print(state: &Handover) -> String {
    let [control, events] = &state.options;
    let object = StateObject {
        ok: true,
        version: VERSION,
        pid: state.pid,
        generation: state.generation,
        control: control.as_deref(),
        events: events.as_deref(),
        connections: state.connections,
        learned: state.learns,
        counts: counts::ALL.iter().map(|(_, name)| *name).collect(),
        stats: stats_names().collect(),
        queues: state.queues.iter().map(queue_object).collect(),
    };
    // Serialization could fail only for keys that are not strings; the object has no such keys.
    object::line(&object)
}

/// Returns the failure for an invalid part of the old process's state.
pub fn fail_part(part: &str) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!(
            "the old firewall's state has an invalid \"{part}\": check that it is a Twinwall firewall"
        ),
    )
}

/// Parses the number at a key, which must exist and be 0 to `max`.
fn parse_number(object: &Value, key: &str, max: i64) -> Result<i64, Failure> {
    let number = object.get(key).and_then(Value::as_i64);
    number
        .filter(|number| (0..=max).contains(number))
        .ok_or_else(|| fail_part(key))
}

fn parse_queue(object: &Value) -> Result<WorkerHandover, Failure> {
    Ok(WorkerHandover {
        number: parse_number(object, "queue", u16::MAX.into())? as u16,
        handover: QueueHandover {
            copy_bytes: parse_number(object, "copy_bytes", u32::MAX.into())? as u32,
            flags: parse_number(object, "flags", u32::MAX.into())? as u32,
        },
        ..WorkerHandover::default()
    })
}

fn parse_queues(queues: Option<&Value>) -> Result<Vec<WorkerHandover>, Failure> {
    match queues.and_then(Value::as_array) {
        Some(queues) if !queues.is_empty() && queues.len() <= options::QUEUES_MAX as usize => {
            queues.iter().map(parse_queue).collect()
        }
        _ => Err(fail_part("queues")),
    }
}

fn text_of(object: &Value, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

/// Parses an array of the old process's names of counters. Returns for each name its index in `ours`; None if this
/// process has no such name.
/// - ours: names that this process knows.
fn parse_names(object: &Value, key: &str, ours: &[&str]) -> Result<Vec<Option<usize>>, Failure> {
    let names = object.get(key).and_then(Value::as_array);
    let names = names.filter(|names| names.len() <= NAMES_MAX);
    let place = |name: &Value| {
        let name = name.as_str().ok_or_else(|| fail_part(key))?;
        Ok(ours.iter().position(|our| *our == name))
    };
    let names = names.ok_or_else(|| fail_part(key))?;
    names.iter().map(place).collect()
}

fn fail_version() -> Failure {
    failure_set(
        LogExit::Call,
        "the old firewall hands over in another way than this one: stop it, and start this one without \
         --take-over",
    )
}

/// Returns the failure for the old process's refusal, as one line.
pub fn fail_refused(object: &Value) -> Failure {
    let error = object.get("error").and_then(Value::as_str);
    let error = error.unwrap_or("it gives no reason");
    let text = format!("the old firewall refuses the upgrade: {error}");
    failure_set(
        LogExit::Call,
        text.replace(|c: char| c.is_ascii_control(), "?"),
    )
}

/// Returns the failure for an answer that does not come from a firewall.
pub fn fail_stranger() -> Failure {
    failure_set(
        LogExit::Call,
        "no firewall answers at this path: give --take-over the path of a firewall's --control",
    )
}

/// Parses the largest number of connections that any old worker followed when the old process sent its state; null if
/// the old policy reads no names.
fn parse_connections(number: Option<&Value>, state: &mut Handover) {
    let number = number.and_then(Value::as_u64);
    state.connections = number.and_then(|number| u32::try_from(number).ok());
}

fn parse_object(object: &Value, state: &mut Handover) -> Result<(), Failure> {
    if object.get("ok") == Some(&Value::Bool(false)) {
        return Err(fail_refused(object));
    }
    if parse_number(object, "version", i64::MAX)? as u64 != VERSION {
        return Err(fail_version());
    }
    state.pid = parse_number(object, "pid", i32::MAX.into())?;
    state.generation = parse_number(object, "generation", u32::MAX.into())? as u32;
    for ((_, name), option) in FD_NAMES.iter().zip(&mut state.options) {
        *option = text_of(object, name);
    }
    parse_connections(object.get("connections"), state);
    state.learns = object.get("learned") == Some(&Value::Bool(true));
    let counts = counts::ALL.map(|(_, name)| name);
    state.count_places = parse_names(object, "counts", &counts)?;
    let stats: Vec<_> = stats_names().collect();
    state.stat_places = parse_names(object, "stats", &stats)?;
    state.queues = parse_queues(object.get("queues"))?;
    Ok(())
}

/// Parses the old process's line of state. Unknown keys are ignored, because the old process may be of another release.
/// Fails with the old process's refusal, or if the line is no state.
pub fn parse(line: &[u8], state: &mut Handover) -> Result<(), Failure> {
    match serde_json::from_slice::<Value>(line) {
        Ok(object) if object.is_object() => parse_object(&object, state),
        _ => Err(fail_stranger()),
    }
}
