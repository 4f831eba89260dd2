// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics as text. Pure, and the same bytes in both firewalls, but for the label `twin`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::counts::{self, Count};
use crate::options::VERSION;
use crate::packet;
use crate::snapshot::{Snapshot, SnapshotPolicy, SnapshotRule};
use crate::stats::Ledger;
use crate::verdict;

const TWIN: &str = "rust";
const PREFIX: &str = "twinwall";

/// What the text is made of.
struct Figures {
    snapshot: Snapshot,
    /// In the order of `counts::ALL`.
    counts: Vec<u64>,
    resident_bytes: u64,
}

impl fmt::Debug for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Figures")
    }
}

/// Samples of one name.
struct Family {
    name: &'static str,
    /// Which the name ends with.
    unit: Option<Unit>,
    kind: MetricType,
    help: &'static str,
}

const fn counter(name: &'static str, unit: Option<Unit>, help: &'static str) -> Family {
    Family {
        name,
        unit,
        kind: MetricType::Counter,
        help,
    }
}

const fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str) -> Family {
    Family {
        name,
        unit,
        kind: MetricType::Gauge,
        help,
    }
}

type Encoder<'a> = DescriptorEncoder<'a>;

fn put_family<'a>(
    encoder: &'a mut Encoder,
    family: &'a Family,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    let unit = family.unit.as_ref();
    encoder.encode_descriptor(family.name, family.help, unit, family.kind)
}

fn put_value(metric: &mut MetricEncoder, family: &Family, value: u64) -> fmt::Result {
    match family.kind {
        MetricType::Counter => metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => metric.encode_gauge(&value),
    }
}

fn put_sample(
    metric: &mut MetricEncoder,
    family: &Family,
    labels: &impl EncodeLabelSet,
    value: u64,
) -> fmt::Result {
    put_value(&mut metric.encode_family(labels)?, family, value)
}

/// A family with one sample, which has no labels.
fn put_single(encoder: &mut Encoder, family: &Family, value: u64) -> fmt::Result {
    put_value(&mut put_family(encoder, family)?, family, value)
}

/// The value of a family with a sample a queue: of the ledger and what the guard answered.
type QueueValue = fn(&Snapshot, &Ledger, u64) -> u64;

static QUEUE_FAMILIES: [(Family, QueueValue); 15] = [
    (
        counter("received_packets", None, "Packets received from the queue"),
        |_, ledger, _| ledger.stats.received,
    ),
    (
        counter(
            "received",
            Some(Unit::Bytes),
            "Bytes of the packets received",
        ),
        |_, ledger, _| ledger.stats.bytes,
    ),
    (
        counter(
            "cut_packets",
            None,
            "Packets with a header behind the copied bytes",
        ),
        |_, ledger, _| ledger.stats.cut,
    ),
    (
        counter(
            "truncated_packets",
            None,
            "Messages that the receive slot was too small for",
        ),
        |_, ledger, _| ledger.stats.truncated,
    ),
    (
        counter(
            "undecidable_packets",
            None,
            "Packets cut before what the policy reads",
        ),
        |_, ledger, _| ledger.stats.undecidable,
    ),
    (
        counter(
            "without_ct_state_packets",
            None,
            "Packets without a connection state where the policy asks for it",
        ),
        |_, ledger, _| ledger.stats.without_ct_state,
    ),
    (
        counter(
            "refused_verdicts",
            None,
            "Verdicts for packets that the kernel no longer had",
        ),
        |_, ledger, _| ledger.stats.refused,
    ),
    (
        counter("overruns", None, "Receive calls that told of lost packets"),
        |_, ledger, _| ledger.stats.overruns,
    ),
    (
        counter(
            "queue_offered_packets",
            None,
            "Packets that the kernel meant for the queue",
        ),
        |_, ledger, _| ledger.offered,
    ),
    (
        gauge(
            "queue_waiting_packets",
            None,
            "Packets that wait for a verdict",
        ),
        |_, ledger, _| ledger.waiting,
    ),
    (
        gauge(
            "queue_length_packets",
            None,
            "Packets that may wait for a verdict",
        ),
        |snapshot, _, _| snapshot.options.queue_length.into(),
    ),
    (
        gauge(
            "queue_unseen_packets",
            None,
            "Packets that passed uninspected as the socket was full",
        ),
        |_, ledger, _| ledger.unseen,
    ),
    (
        counter(
            "queue_stalled_packets",
            None,
            "Packets answered by the guard after the deadline",
        ),
        |_, _, stalled| stalled,
    ),
    (
        gauge(
            "ledger_difference_packets",
            None,
            "Packets that the ledger does not account for",
        ),
        |_, ledger, _| ledger.difference,
    ),
    (
        gauge(
            "ledger_reconciled",
            None,
            "Whether the ledger reconciles: 1 if it does",
        ),
        |_, ledger, _| ledger.reconciled.into(),
    ),
];

fn put_queue_family(
    encoder: &mut Encoder,
    (family, value): &(Family, QueueValue),
    snapshot: &Snapshot,
) -> fmt::Result {
    let mut metric = put_family(encoder, family)?;
    for (ledger, stalled) in snapshot.ledgers.iter().zip(&snapshot.stalled) {
        let labels = [("queue", ledger.number)];
        put_sample(
            &mut metric,
            family,
            &labels,
            value(snapshot, ledger, *stalled),
        )?;
    }
    Ok(())
}

/// A sample of a family by queue and something else.
fn put_queue_sample(
    metric: &mut MetricEncoder,
    family: &Family,
    ledger: &Ledger,
    (label, value): (&str, &str),
    count: u64,
) -> fmt::Result {
    let labels = [("queue", ledger.number.to_string()), (label, value.into())];
    put_sample(metric, family, &labels, count)
}

fn put_verdicts(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    static FAMILY: Family = counter("packets", None, "Packets answered, by verdict");
    let mut metric = put_family(encoder, &FAMILY)?;
    for ledger in &snapshot.ledgers {
        for ((_, name), count) in verdict::VERDICTS.into_iter().zip(ledger.stats.verdicts) {
            put_queue_sample(&mut metric, &FAMILY, ledger, ("verdict", name), count)?;
        }
    }
    Ok(())
}

fn put_malformed(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    static FAMILY: Family = counter("malformed_packets", None, "Malformed packets, by reason");
    let mut metric = put_family(encoder, &FAMILY)?;
    for ledger in &snapshot.ledgers {
        for ((status, name), count) in packet::STATUSES.into_iter().zip(ledger.stats.malformed) {
            if packet::is_malformed(status) {
                put_queue_sample(&mut metric, &FAMILY, ledger, ("reason", name), count)?;
            }
        }
        let netlink = ledger.stats.netlink;
        put_queue_sample(&mut metric, &FAMILY, ledger, ("reason", "netlink"), netlink)?;
    }
    Ok(())
}

fn put_answers(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    static FAMILY: Family = counter(
        "answers",
        None,
        "Answers to rejected packets, by what became of them",
    );
    let mut metric = put_family(encoder, &FAMILY)?;
    for ledger in &snapshot.ledgers {
        let results = ["sent", "not_due", "failed"];
        for (name, count) in results.into_iter().zip(ledger.stats.answers) {
            put_queue_sample(&mut metric, &FAMILY, ledger, ("result", name), count)?;
        }
    }
    Ok(())
}

fn put_lost(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    static FAMILY: Family = counter(
        "queue_lost_packets",
        None,
        "Packets that the kernel dropped, by reason",
    );
    let mut metric = put_family(encoder, &FAMILY)?;
    for ledger in &snapshot.ledgers {
        for (name, count) in [
            ("queue_full", ledger.queue_full),
            ("user_drop", ledger.user_drop),
        ] {
            put_queue_sample(&mut metric, &FAMILY, ledger, ("reason", name), count)?;
        }
    }
    Ok(())
}

/// The figures of a rule's statements: its number and what it counted.
type RuleValues = fn(&SnapshotRule) -> Vec<(u32, u64)>;

static RULE_FAMILIES: [(Family, RuleValues); 3] = [
    (
        counter(
            "rule_packets",
            None,
            "Packets that a counter of a rule counted",
        ),
        |rule| {
            let counters = rule.counters.iter();
            counters
                .map(|counter| (counter.statement, counter.packets))
                .collect()
        },
    ),
    (
        counter(
            "rule",
            Some(Unit::Bytes),
            "Bytes that a counter of a rule counted",
        ),
        |rule| {
            let counters = rule.counters.iter();
            counters
                .map(|counter| (counter.statement, counter.bytes))
                .collect()
        },
    ),
    (
        counter(
            "rule_logged_packets",
            None,
            "Packets that a log statement of a rule logged",
        ),
        |rule| {
            let logs = rule.logs.iter();
            logs.map(|log| (log.statement, log.packets)).collect()
        },
    ),
];

/// A rule is told by its position in its chain, as several may stand on a line.
fn put_rules(encoder: &mut Encoder, policy: &SnapshotPolicy) -> fmt::Result {
    for (family, values) in &RULE_FAMILIES {
        let mut metric = put_family(encoder, family)?;
        let mut position = 0;
        let mut before: Option<&SnapshotRule> = None;
        for rule in &policy.rules {
            let is_same_chain = |before: &SnapshotRule| {
                (&before.chain, &before.table) == (&rule.chain, &rule.table)
            };
            position = if before.is_some_and(is_same_chain) {
                position + 1
            } else {
                1
            };
            before = Some(rule);
            for (statement, value) in values(rule) {
                let labels = [
                    ("table", rule.table.as_str()),
                    ("chain", &rule.chain),
                    ("position", &position.to_string()),
                    ("rule", &rule.rule),
                    ("statement", &statement.to_string()),
                    ("comment", rule.comment.as_deref().unwrap_or_default()),
                ];
                put_sample(&mut metric, family, &labels, value)?;
            }
        }
    }
    Ok(())
}

fn put_policy(
    encoder: &mut Encoder,
    policy: &SnapshotPolicy,
    reload_error: Option<&str>,
) -> fmt::Result {
    let generation = gauge(
        "policy_generation",
        None,
        "Number of the policy, which counts up from 1",
    );
    let loaded = gauge(
        "policy_loaded_time",
        Some(Unit::Seconds),
        "UNIX time at which the policy was loaded",
    );
    let chains = gauge("policy_chains", None, "Chains of the policy");
    let rules = gauge("policy_rules", None, "Rules of the policy");
    let failed = gauge(
        "policy_reload_failed",
        None,
        "Whether the last reload failed: 1 if it did",
    );
    put_single(encoder, &generation, policy.generation.into())?;
    put_single(encoder, &loaded, policy.loaded_ms / 1000)?;
    put_single(encoder, &chains, policy.chain_count.into())?;
    put_single(encoder, &rules, policy.rule_count.into())?;
    put_single(encoder, &failed, reload_error.is_some().into())?;
    put_rules(encoder, policy)
}

fn count_help(count: Count) -> &'static str {
    match count {
        Count::Reloads => "Reloads of the policy",
        Count::ReloadsFailed => "Reloads that left the old policy running",
        Count::Stalls => "Times that packets waited longer than the deadline",
        Count::StalledPackets => "Packets answered by the guard in all queues",
        Count::ControlClients => "Clients of the control socket that were served",
        Count::ControlRequests => "Requests of the control socket that were understood",
        Count::ControlRefused => "Clients of the control socket refused by their credentials",
        Count::ControlTooMany => "Clients of the control socket that found all places taken",
        Count::ControlBad => "Requests of the control socket that were not understood",
        Count::ControlSlow => "Clients of the control socket closed as they did not read",
        Count::MetricsRequests => "Requests for the metrics that were answered with them",
        Count::MetricsUnanswered => {
            "Connections for metrics that ended without an understood request"
        }
        Count::MetricsRefused => "Requests for something else than the metrics",
        Count::EventsWritten => "Events that were written",
        Count::EventsLeftOut => "Events left out as there were too many a second",
        Count::EventsLost => "Events lost as a ring was full",
        Count::EventsFailed => "Events that could not be written",
        Count::TailClients => "Clients that followed the events",
        Count::TailLost => "Events that a following client read too slowly for",
        Count::Upgrades => "Times that queues were handed over to another process",
        Count::UpgradesFailed => "Times that handing over failed",
    }
}

fn put_counts(encoder: &mut Encoder, counts: &[u64]) -> fmt::Result {
    for ((count, name), value) in counts::ALL.into_iter().zip(counts) {
        put_single(encoder, &counter(name, None, count_help(count)), *value)?;
    }
    Ok(())
}

fn put_process(encoder: &mut Encoder, figures: &Figures) -> fmt::Result {
    let build = Family {
        name: "build",
        unit: None,
        kind: MetricType::Info,
        help: "The program and its version",
    };
    let start = gauge(
        "start_time",
        Some(Unit::Seconds),
        "UNIX time at which the firewall started",
    );
    let uptime = gauge(
        "uptime",
        Some(Unit::Seconds),
        "Seconds since the firewall started",
    );
    let memory = gauge(
        "resident_memory",
        Some(Unit::Bytes),
        "Memory of the process that is in use",
    );
    let snapshot = &figures.snapshot;
    let uptime_ms = snapshot.time_ms.saturating_sub(snapshot.started_ms);
    put_family(encoder, &build)?.encode_info(&[("twin", TWIN), ("version", VERSION)])?;
    put_single(encoder, &start, snapshot.started_ms / 1000)?;
    put_single(encoder, &uptime, uptime_ms / 1000)?;
    put_single(encoder, &memory, figures.resident_bytes)
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (encoder, snapshot) = (&mut encoder, &self.snapshot);
        put_process(encoder, self)?;
        put_verdicts(encoder, snapshot)?;
        for family in &QUEUE_FAMILIES {
            put_queue_family(encoder, family, snapshot)?;
        }
        put_lost(encoder, snapshot)?;
        put_malformed(encoder, snapshot)?;
        put_answers(encoder, snapshot)?;
        if let Some(policy) = &snapshot.policy {
            put_policy(encoder, policy, snapshot.reload_error.as_deref())?;
        }
        put_counts(encoder, &self.counts)
    }
}

/// Makes the text in the format OpenMetrics 1.0. snapshot: with rules. counts: in the order of
/// `counts::ALL`. resident_bytes: memory of the process.
pub fn text(snapshot: Snapshot, counts: Vec<u64>, resident_bytes: u64) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Figures {
        snapshot,
        counts,
        resident_bytes,
    }));
    let mut text = String::new();
    // It can't fail: a string takes everything.
    let _ = encode(&mut text, &registry);
    text
}
