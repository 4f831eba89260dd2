// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of the requests of the control socket. Has no side effects.

use serde_json::{Map, Value};

use crate::base::log::{self, failure_set, Failure, LogExit, LogLevel};
use crate::options;
use crate::options::arguments;
use crate::packet::verdict::{self, Verdict};
use crate::queue::QueueKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Commands of the control socket.
pub enum ControlCommand {
    Status,
    Stats,
    Rules,
    Reload,
    Log,
    Drain,
    Tail,
    Proof,
    Connections,
    Upgrade,
}

/// Version of the protocol of `upgrade`.
pub const VERSION: u64 = 2;
/// Maximum duration of a drain in seconds if the request has none.
pub const DRAIN_SECONDS: u32 = 10;
pub const DRAIN_SECONDS_MAX: u64 = 3600;
/// Maximum position in the connection listing. A position is a worker's index and a slot of the worker's connection
/// table.
pub const FROM_MAX: u64 = (1 << 48) - 1;

#[derive(Clone, Debug, PartialEq, Eq)]
/// A parsed request. Fields that do not belong to the command have their default.
pub struct ControlRequest {
    pub command: ControlCommand,
    /// `log`: level to set; None = the level stays.
    pub level: Option<LogLevel>,
    /// `drain`: maximum duration in seconds.
    pub seconds: u32,
    /// `tail`: wanted packets, by the bits 1 << Verdict.
    pub verdicts: u32,
    /// `tail`: true if the events include the packets' bytes.
    pub packets: bool,
    /// `connections`: true for only the connections whose names are undecided.
    pub undecided: bool,
    /// `connections`: position at which the page begins.
    pub from: u64,
    /// `upgrade`: packet backend of the new firewall.
    pub backend: QueueKind,
}

const EXPECTED: &str =
    "status, stats, rules, reload, log, drain, tail, proof, connections or upgrade";

/// Commands with their names and the keys that they accept besides "command".
const COMMANDS: [(ControlCommand, &str, &[&str]); 10] = [
    (ControlCommand::Status, "status", &[]),
    (ControlCommand::Stats, "stats", &[]),
    (ControlCommand::Rules, "rules", &[]),
    (ControlCommand::Reload, "reload", &[]),
    (ControlCommand::Log, "log", &["level"]),
    (ControlCommand::Drain, "drain", &["seconds"]),
    (ControlCommand::Tail, "tail", &["verdicts", "packets"]),
    (ControlCommand::Proof, "proof", &[]),
    (
        ControlCommand::Connections,
        "connections",
        &["undecided", "from"],
    ),
    (ControlCommand::Upgrade, "upgrade", &["version", "backend"]),
];

/// Names of verdicts in `tail`, with their bits; `accept` includes the verdict with a mark.
const TAIL_VERDICTS: [(&str, u32); 3] = [
    (
        "accept",
        1 << Verdict::Accept as u32 | 1 << Verdict::Mark as u32,
    ),
    ("drop", 1 << Verdict::Drop as u32),
    ("reject", 1 << Verdict::Reject as u32),
];

fn fail(text: impl std::fmt::Display) -> Failure {
    failure_set(LogExit::Usage, text)
}

fn fail_key(key: &str, expected: &str) -> Failure {
    fail(format_args!("\"{key}\": expected {expected}"))
}

type Command = (ControlCommand, &'static str, &'static [&'static str]);

fn find_command(object: &Map<String, Value>) -> Result<Command, Failure> {
    let value = object.get("command").and_then(Value::as_str);
    let name = value.ok_or_else(|| fail_key("command", EXPECTED))?;
    let found = COMMANDS.into_iter().find(|(_, known, _)| *known == name);
    found.ok_or_else(|| {
        let quoted = arguments::quote(name.as_bytes());
        fail(format_args!(
            "unknown command \"{quoted}\": expected {EXPECTED}"
        ))
    })
}

/// Fails if the request has keys that the command does not accept. The failure names the first of
/// these keys in byte order.
fn check_keys(object: &Map<String, Value>, (_, name, keys): Command) -> Result<(), Failure> {
    let takes = |key: &str| key == "command" || keys.contains(&key);
    match object.keys().filter(|key| !takes(key)).min() {
        None => Ok(()),
        Some(unknown) => {
            let quoted = arguments::quote(unknown.as_bytes());
            Err(fail(format_args!(
                "{name} takes no \"{quoted}\": leave it out"
            )))
        }
    }
}

fn parse_level(value: &Value) -> Result<LogLevel, Failure> {
    let level = log::LOG_LEVEL_NAMES
        .into_iter()
        .find(|(_, name)| value.as_str() == Some(name));
    level
        .map(|(level, _)| level)
        .ok_or_else(|| fail_key("level", "error, warning, info or debug"))
}

fn parse_seconds(value: &Value) -> Result<u32, Failure> {
    let seconds = value
        .as_u64()
        .filter(|seconds| *seconds <= DRAIN_SECONDS_MAX);
    seconds
        .map(|seconds| seconds as u32)
        .ok_or_else(|| fail_key("seconds", "a whole number from 0 to 3600"))
}

/// Returns the verdict bits of a name in `tail`; None if the name is unknown.
fn verdicts_of(value: &Value) -> Option<u32> {
    let mut known = TAIL_VERDICTS.into_iter();
    known
        .find(|(name, _)| value.as_str() == Some(name))
        .map(|(_, verdicts)| verdicts)
}

fn parse_verdicts(value: &Value) -> Result<u32, Failure> {
    let list = value.as_array().filter(|list| !list.is_empty());
    list.and_then(|list| {
        list.iter()
            .try_fold(0, |all, one| Some(all | verdicts_of(one)?))
    })
    .ok_or_else(|| fail_key("verdicts", "a list of accept, drop and reject"))
}

fn parse_bool(key: &str, value: &Value) -> Result<bool, Failure> {
    value
        .as_bool()
        .ok_or_else(|| fail_key(key, "true or false"))
}

fn parse_from(value: &Value) -> Result<u64, Failure> {
    let from = value.as_u64().filter(|from| *from <= FROM_MAX);
    from.ok_or_else(|| fail_key("from", "the value of next in the last answer"))
}

fn parse_upgrade(object: &Map<String, Value>) -> Result<QueueKind, Failure> {
    if object.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(fail_key(
            "version",
            "2: stop this firewall, and start the new one without --take-over",
        ));
    }
    let name = object.get("backend").and_then(Value::as_str);
    let kinds = [QueueKind::Classic, QueueKind::Mnl, QueueKind::Raw];
    kinds
        .into_iter()
        .find(|kind| name == Some(options::backend_name(*kind)))
        .ok_or_else(|| fail_key("backend", "classic, mnl or raw"))
}

/// Parses a request line without its line end.
pub fn parse(line: &[u8]) -> Result<ControlRequest, Failure> {
    let Ok(Value::Object(object)) = serde_json::from_slice(line) else {
        return Err(fail(
            "the line is no JSON object: send one like {\"command\":\"status\"}",
        ));
    };
    let found = find_command(&object)?;
    check_keys(&object, found)?;
    let mut request = ControlRequest {
        command: found.0,
        level: None,
        seconds: DRAIN_SECONDS,
        verdicts: (1 << verdict::COUNT) - 1,
        packets: false,
        undecided: false,
        from: 0,
        backend: QueueKind::Classic,
    };
    if let Some(value) = object.get("level") {
        request.level = Some(parse_level(value)?);
    }
    if let Some(value) = object.get("seconds") {
        request.seconds = parse_seconds(value)?;
    }
    if let Some(value) = object.get("verdicts") {
        request.verdicts = parse_verdicts(value)?;
    }
    if let Some(value) = object.get("packets") {
        request.packets = parse_bool("packets", value)?;
    }
    if let Some(value) = object.get("undecided") {
        request.undecided = parse_bool("undecided", value)?;
    }
    if let Some(value) = object.get("from") {
        request.from = parse_from(value)?;
    }
    if request.command == ControlCommand::Upgrade {
        request.backend = parse_upgrade(&object)?;
    }
    Ok(request)
}
