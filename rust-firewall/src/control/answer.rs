// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers of the control socket (docs/CONTROL.md), each a line of JSON with its line end. The
//! functions have no side effects.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::base::counts;
use crate::base::log::{self, LogLevel};
use crate::base::object;
use crate::connection::listing::{Listed, ListedState};
use crate::control::process::ControlSelf;
use crate::events::text;
use crate::guard;
use crate::names::NamesProtocol;
use crate::options::{self, PROGRAM, VERSION};
use crate::policy::{print, Type};
use crate::state::contract::Contract;
use crate::state::reload::ReloadResult;
use crate::state::report_policy::{self, RequirementObject};
use crate::state::snapshot::{
    Snapshot, SnapshotCounter, SnapshotLog, SnapshotPolicy, SnapshotRule,
};
use crate::worker::stats::{self, Ledger};
use crate::worker::tracked;
use crate::worker::workers::Listing;

const NS_PER_MS: u64 = 1000 * 1000;

#[derive(Serialize)]
struct ErrorAnswer<'a> {
    ok: bool,
    error: &'a str,
}

/// Returns the answer to a failed request, or to a client that is not served.
/// - text: "CAUSE: CURE".
pub fn error(text: &str) -> String {
    object::line(&ErrorAnswer {
        ok: false,
        error: text,
    })
}

#[derive(Serialize)]
struct PolicyObject<'a> {
    file: &'a str,
    generation: u32,
    loaded_ms: u64,
    chains: u32,
    rules: u32,
    requirement: RequirementObject,
    ct_state: Option<&'static str>,
    learned: u64,
}

fn policy_object(policy: &SnapshotPolicy) -> PolicyObject<'_> {
    PolicyObject {
        file: &policy.file,
        generation: policy.generation,
        loaded_ms: policy.loaded_ms,
        chains: policy.chain_count,
        rules: policy.rule_count,
        requirement: report_policy::requirement_object(&policy.requirement),
        ct_state: tracked::name(policy.tracked),
        learned: policy.learned,
    }
}

#[derive(Serialize)]
struct QueueObject {
    queue: u16,
    waiting: Option<u64>,
    queue_length: u32,
    received: u64,
    queue_full: Option<u64>,
    user_drop: Option<u64>,
    unseen: Option<u64>,
    stalled: u64,
    reconciled: bool,
}

/// Returns a value that depends on the kernel's counters of a queue; None if these counters are unknown.
fn known(ledger: &Ledger, value: u64) -> Option<u64> {
    ledger.known.then_some(value)
}

fn queues_array(snapshot: &Snapshot) -> Vec<QueueObject> {
    let object = |(ledger, stalled): (&Ledger, &u64)| QueueObject {
        queue: ledger.number,
        waiting: known(ledger, ledger.waiting),
        queue_length: snapshot.options.queue_length,
        received: ledger.stats.received,
        queue_full: known(ledger, ledger.queue_full),
        user_drop: known(ledger, ledger.user_drop),
        unseen: known(ledger, ledger.unseen),
        stalled: *stalled,
        reconciled: ledger.reconciled,
    };
    let queues = snapshot.ledgers.iter().zip(&snapshot.stalled);
    queues.map(object).collect()
}

#[derive(Serialize)]
struct LedgerObject {
    reconciled: bool,
    difference: u64,
    lost: Option<u64>,
}

fn ledger_object(snapshot: &Snapshot) -> LedgerObject {
    let mut sum = Ledger {
        known: true,
        reconciled: true,
        ..Ledger::default()
    };
    for ledger in &snapshot.ledgers {
        stats::ledger_add(&mut sum, ledger);
    }
    LedgerObject {
        reconciled: sum.reconciled,
        difference: sum.difference,
        lost: known(&sum, sum.lost),
    }
}

fn counts_object<S: Serializer>(counts: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let names = counts::ALL.iter().map(|(_, name)| name);
    serializer.collect_map(names.zip(counts))
}

#[derive(Serialize)]
struct StatusAnswer<'a> {
    ok: bool,
    program: &'static str,
    version: &'static str,
    pid: i32,
    uid: u32,
    executable: &'a str,
    arguments: &'a [String],
    time_ms: u64,
    started_ms: u64,
    uptime_ms: u64,
    backend: &'static str,
    policy: Option<PolicyObject<'a>>,
    queues: Vec<QueueObject>,
    ledger: LedgerObject,
    contract: &'a Contract,
    guard: Option<bool>,
    reload_error: Option<&'a str>,
    log_level: &'static str,
    #[serde(serialize_with = "counts_object")]
    counts: &'a [u64],
}

/// Returns the answer to `status`: the running program, its policy, queues and counts.
/// - counts: in the order of `counts::ALL`.
pub fn status(own: &ControlSelf, snapshot: &Snapshot, level: LogLevel, counts: &[u64]) -> String {
    object::line(&StatusAnswer {
        ok: true,
        program: PROGRAM,
        version: VERSION,
        pid: own.pid,
        uid: own.uid,
        executable: &own.executable,
        arguments: &own.arguments,
        time_ms: snapshot.time_ms,
        started_ms: snapshot.started_ms,
        uptime_ms: snapshot.uptime_ms,
        backend: options::backend_name(snapshot.options.backend),
        policy: snapshot.policy.as_ref().map(policy_object),
        queues: queues_array(snapshot),
        ledger: ledger_object(snapshot),
        contract: &snapshot.contract,
        guard: guard::wanted(&snapshot.options).then_some(!snapshot.guard_ended),
        reload_error: snapshot.reload_error.as_deref(),
        log_level: log::level_name(level),
        counts,
    })
}

/// Returns the answer to `stats`.
/// - report: ledger that report::ledger makes with --json.
pub fn stats(report: &str) -> String {
    // The report is a JSON object on a line; "ok" becomes its first key.
    let rest = report.strip_prefix('{').unwrap_or_default();
    format!("{{\"ok\":true,{rest}")
}

#[derive(Serialize)]
struct CounterObject {
    statement: u32,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct LogObject {
    statement: u32,
    packets: u64,
}

#[derive(Serialize)]
struct RuleObject<'a> {
    rule: &'a str,
    table: &'a str,
    chain: &'a str,
    text: &'a str,
    comment: Option<&'a str>,
    counters: Vec<CounterObject>,
    logs: Vec<LogObject>,
}

fn counter_object(counter: &SnapshotCounter) -> CounterObject {
    CounterObject {
        statement: counter.statement,
        packets: counter.packets,
        bytes: counter.bytes,
    }
}

fn log_object(log: &SnapshotLog) -> LogObject {
    LogObject {
        statement: log.statement,
        packets: log.packets,
    }
}

fn rule_object(rule: &SnapshotRule) -> RuleObject<'_> {
    RuleObject {
        rule: &rule.rule,
        table: &rule.table,
        chain: &rule.chain,
        text: &rule.text,
        comment: rule.comment.as_deref(),
        counters: rule.counters.iter().map(counter_object).collect(),
        logs: rule.logs.iter().map(log_object).collect(),
    }
}

#[derive(Serialize)]
struct RulesAnswer<'a> {
    ok: bool,
    generation: u32,
    rules: Vec<RuleObject<'a>>,
}

/// Returns the answer to `rules`.
/// - snapshot: must include the rules.
pub fn rules(snapshot: &Snapshot) -> String {
    let policy = snapshot.policy.as_ref();
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    object::line(&RulesAnswer {
        ok: true,
        generation: policy.map_or(0, |policy| policy.generation),
        rules: rules.iter().map(rule_object).collect(),
    })
}

#[derive(Serialize)]
struct ConnectionObject {
    queue: u16,
    protocol: &'static str,
    client: String,
    client_port: u16,
    server: String,
    server_port: u16,
    state: &'static str,
    shows: Option<&'static str>,
    name: Option<Cow<'static, str>>,
    age_ms: u64,
}

/// Returns address and port of one end of a connection.
/// - is_low: true for the end that comes first in the connection's key.
fn end(listed: &Listed, is_low: bool) -> (String, u16) {
    let [first, second, third, fourth, fifth] = listed.key;
    let is_ipv4 = (first >> 8) as u8 == 4;
    let (kind, address) = match (is_ipv4, is_low) {
        (true, true) => (Type::Ipv4Addr, u128::from(second >> 32)),
        (true, false) => (Type::Ipv4Addr, u128::from(second as u32)),
        (false, true) => (Type::Ipv6Addr, u128::from(second) << 64 | u128::from(third)),
        (false, false) => (Type::Ipv6Addr, u128::from(fourth) << 64 | u128::from(fifth)),
    };
    let port = first >> if is_low { 48 } else { 32 };
    (print::value(kind, address), port as u16)
}

fn state_name(state: ListedState) -> &'static str {
    match state {
        ListedState::Undecided => "undecided",
        ListedState::Named => "named",
        ListedState::Missing => "missing",
        ListedState::Denied => "denied",
        ListedState::Unknown => "unknown",
    }
}

/// Returns the name of the protocol in which the client sends names; None if it is another protocol, or if the names
/// are not known.
fn protocol_name(protocol: NamesProtocol) -> Option<&'static str> {
    match protocol {
        NamesProtocol::Other => None,
        NamesProtocol::Tls => Some("tls"),
        NamesProtocol::Quic => Some("quic"),
        NamesProtocol::Http => Some("http"),
        NamesProtocol::Dns => Some("dns"),
    }
}

fn connection_object(listed: &Listed, queue: u16) -> ConnectionObject {
    let client = end(listed, listed.client_low);
    let server = end(listed, !listed.client_low);
    let host = listed.host.get(..listed.host_length.into());
    ConnectionObject {
        queue,
        protocol: if listed.is_udp { "udp" } else { "tcp" },
        client: client.0,
        client_port: client.1,
        server: server.0,
        server_port: server.1,
        state: state_name(listed.state),
        shows: protocol_name(listed.protocol),
        name: text::shown(host.unwrap_or_default()),
        age_ms: listed.age_ns / NS_PER_MS,
    }
}

#[derive(Serialize)]
struct ConnectionsAnswer {
    ok: bool,
    connections: Vec<ConnectionObject>,
    next: Option<u64>,
}

/// Returns the answer to `connections`: one page of the listing.
pub fn connections(listing: &Listing) -> String {
    let page = &listing.page;
    let listed = page.listed.iter().take(page.count as usize);
    object::line(&ConnectionsAnswer {
        ok: true,
        connections: listed
            .map(|listed| connection_object(listed, listing.number))
            .collect(),
        next: listing.next,
    })
}

#[derive(Serialize)]
struct ReloadAnswer {
    ok: bool,
    generation: u32,
    rules: u32,
    kept: u32,
    added: u32,
    removed: u32,
    milliseconds: u64,
}

pub fn reload(result: &ReloadResult) -> String {
    object::line(&ReloadAnswer {
        ok: true,
        generation: result.generation,
        rules: result.rules,
        kept: result.kept,
        added: result.added,
        removed: result.removed,
        milliseconds: result.milliseconds,
    })
}

#[derive(Serialize)]
struct LogAnswer {
    ok: bool,
    level: &'static str,
    was: &'static str,
}

pub fn log(level: LogLevel, was: LogLevel) -> String {
    object::line(&LogAnswer {
        ok: true,
        level: log::level_name(level),
        was: log::level_name(was),
    })
}

#[derive(Serialize)]
struct DrainAnswer {
    ok: bool,
    seconds: u32,
    waiting: u64,
}

#[derive(Serialize)]
struct ProofAnswer {
    ok: bool,
    port: u32,
    number: u64,
}

/// Returns the answer to `proof`: the netlink port to which the client sends its proof, and the
/// number to send.
pub fn proof(port: u32, number: u64) -> String {
    object::line(&ProofAnswer {
        ok: true,
        port,
        number,
    })
}

/// Returns the answer to `drain`.
/// - waiting: number of packets without a verdict, in the queues whose counters are known.
pub fn drain(seconds: u32, waiting: u64) -> String {
    object::line(&DrainAnswer {
        ok: true,
        seconds,
        waiting,
    })
}
