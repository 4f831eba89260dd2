// SPDX-License-Identifier: GPL-2.0-or-later
//! The metrics as text. Pure, and the same bytes in both firewalls, but for the label `twin`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::base::counts;
use crate::options::VERSION;
use crate::packet;
use crate::packet::verdict;
use crate::spec::metric::{self as spec, Family, Metric};
use crate::state::snapshot::{Snapshot, SnapshotPolicy, SnapshotRule};
use crate::worker::stats::Ledger;

const TWIN: &str = "rust";
const PREFIX: &str = "twinwall";

/// Input of the text.
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

/// A sample. values: of the family's labels.
fn put_sample(
    metric: &mut MetricEncoder,
    family: &Family,
    values: &[&str],
    value: u64,
) -> fmt::Result {
    let labels: Vec<_> = family
        .labels
        .iter()
        .copied()
        .zip(values.iter().copied())
        .collect();
    put_value(&mut metric.encode_family(&labels)?, family, value)
}

/// A family with one sample, which has no labels.
fn put_single(encoder: &mut Encoder, family: &Family, value: u64) -> fmt::Result {
    put_value(&mut put_family(encoder, family)?, family, value)
}

/// The value of a family with a sample a queue: of the ledger and what the guard answered.
type QueueValue = fn(&Snapshot, &Ledger, u64) -> u64;

static QUEUE_FAMILIES: [(Metric, QueueValue); 19] = [
    (Metric::ReceivedPackets, |_, ledger, _| {
        ledger.stats.received
    }),
    (Metric::ReceivedBytes, |_, ledger, _| ledger.stats.bytes),
    (Metric::BeyondCopyPackets, |_, ledger, _| {
        ledger.stats.beyond_copy
    }),
    (Metric::TruncatedPackets, |_, ledger, _| {
        ledger.stats.truncated
    }),
    (Metric::UndecidablePackets, |_, ledger, _| {
        ledger.stats.undecidable
    }),
    (Metric::UndecidedPackets, |_, ledger, _| {
        ledger.stats.undecided
    }),
    (Metric::WithoutCtStatePackets, |_, ledger, _| {
        ledger.stats.without_ct_state
    }),
    (Metric::RefusedVerdicts, |_, ledger, _| ledger.stats.refused),
    (Metric::Overruns, |_, ledger, _| ledger.stats.overruns),
    (Metric::WithoutIdMessages, |_, ledger, _| {
        ledger.stats.without_id
    }),
    (Metric::GapIds, |_, ledger, _| ledger.stats.gaps),
    (Metric::SendRetries, |_, ledger, _| {
        ledger.stats.send_retries
    }),
    (Metric::QueueOfferedPackets, |_, ledger, _| ledger.offered),
    (Metric::QueueWaitingPackets, |_, ledger, _| ledger.waiting),
    (Metric::QueueLengthPackets, |snapshot, _, _| {
        snapshot.options.queue_length.into()
    }),
    (Metric::QueueUnseenPackets, |_, ledger, _| ledger.unseen),
    (Metric::QueueStalledPackets, |_, _, stalled| stalled),
    (Metric::LedgerDifferencePackets, |_, ledger, _| {
        ledger.difference
    }),
    (Metric::LedgerReconciled, |_, ledger, _| {
        ledger.reconciled.into()
    }),
];

fn put_queue_family(
    encoder: &mut Encoder,
    (metric, value): &(Metric, QueueValue),
    snapshot: &Snapshot,
) -> fmt::Result {
    let family = spec::family(*metric);
    let mut metric = put_family(encoder, family)?;
    for (ledger, stalled) in snapshot.ledgers.iter().zip(&snapshot.stalled) {
        let number = ledger.number.to_string();
        if ledger.known || !family.kernel {
            let value = value(snapshot, ledger, *stalled);
            put_sample(&mut metric, family, &[&number], value)?;
        }
    }
    Ok(())
}

/// A sample of a family by queue and something else.
fn put_queue_sample(
    metric: &mut MetricEncoder,
    family: &Family,
    ledger: &Ledger,
    value: &str,
    count: u64,
) -> fmt::Result {
    put_sample(metric, family, &[&ledger.number.to_string(), value], count)
}

fn put_verdicts(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::Packets);
    let mut metric = put_family(encoder, family)?;
    for ledger in &snapshot.ledgers {
        for ((_, name), count) in verdict::VERDICTS.into_iter().zip(ledger.stats.verdicts) {
            put_queue_sample(&mut metric, family, ledger, name, count)?;
        }
    }
    Ok(())
}

fn put_malformed(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::MalformedPackets);
    let mut metric = put_family(encoder, family)?;
    for ledger in &snapshot.ledgers {
        for ((status, name), count) in packet::STATUSES.into_iter().zip(ledger.stats.malformed) {
            if packet::is_malformed(status) {
                put_queue_sample(&mut metric, family, ledger, name, count)?;
            }
        }
        let netlink = ledger.stats.netlink;
        put_queue_sample(&mut metric, family, ledger, "netlink", netlink)?;
    }
    Ok(())
}

fn put_replies(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::Replies);
    let mut metric = put_family(encoder, family)?;
    for ledger in &snapshot.ledgers {
        for (name, count) in family.values.iter().zip(ledger.stats.replies) {
            put_queue_sample(&mut metric, family, ledger, name, count)?;
        }
    }
    Ok(())
}

fn put_connections(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::Connections);
    let mut metric = put_family(encoder, family)?;
    for ledger in &snapshot.ledgers {
        for (name, count) in family.values.iter().zip(ledger.stats.connections) {
            put_queue_sample(&mut metric, family, ledger, name, count)?;
        }
    }
    Ok(())
}

fn put_answers(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::DnsAnswers);
    let mut metric = put_family(encoder, family)?;
    for ledger in &snapshot.ledgers {
        for (name, count) in family.values.iter().zip(ledger.stats.answers) {
            put_queue_sample(&mut metric, family, ledger, name, count)?;
        }
    }
    Ok(())
}

fn put_lost(encoder: &mut Encoder, snapshot: &Snapshot) -> fmt::Result {
    let family = spec::family(Metric::QueueLostPackets);
    let mut metric = put_family(encoder, family)?;
    for ledger in snapshot.ledgers.iter().filter(|ledger| ledger.known) {
        let lost = [ledger.queue_full, ledger.user_drop];
        for (name, count) in family.values.iter().zip(lost) {
            put_queue_sample(&mut metric, family, ledger, name, count)?;
        }
    }
    Ok(())
}

/// The figures of a rule's statements: its number and what it counted.
type RuleValues = fn(&SnapshotRule) -> Vec<(u32, u64)>;

static RULE_FAMILIES: [(Metric, RuleValues); 3] = [
    (Metric::RulePackets, |rule| {
        let counters = rule.counters.iter();
        counters
            .map(|counter| (counter.statement, counter.packets))
            .collect()
    }),
    (Metric::RuleBytes, |rule| {
        let counters = rule.counters.iter();
        counters
            .map(|counter| (counter.statement, counter.bytes))
            .collect()
    }),
    (Metric::RuleLoggedPackets, |rule| {
        let logs = rule.logs.iter();
        logs.map(|log| (log.statement, log.packets)).collect()
    }),
];

/// A rule is told by its position in its chain, as several may stand on a line.
fn put_rules(encoder: &mut Encoder, policy: &SnapshotPolicy) -> fmt::Result {
    for (metric, values) in &RULE_FAMILIES {
        let family = spec::family(*metric);
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
                let values = [
                    rule.table.as_str(),
                    &rule.chain,
                    &position.to_string(),
                    &rule.rule,
                    &statement.to_string(),
                    rule.comment.as_deref().unwrap_or_default(),
                ];
                put_sample(&mut metric, family, &values, value)?;
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
    let mut put = |metric, value| put_single(encoder, spec::family(metric), value);
    put(Metric::PolicyGeneration, policy.generation.into())?;
    put(Metric::PolicyLoadedTimeSeconds, policy.loaded_ms / 1000)?;
    put(Metric::PolicyChains, policy.chain_count.into())?;
    put(Metric::PolicyRules, policy.rule_count.into())?;
    put(Metric::PolicyReloadFailed, reload_error.is_some().into())?;
    put(Metric::PolicyLearnedAddresses, policy.learned)?;
    put_rules(encoder, policy)
}

fn put_counts(encoder: &mut Encoder, counts: &[u64]) -> fmt::Result {
    for ((count, name), value) in counts::ALL.into_iter().zip(counts) {
        let family = Family {
            name,
            unit: None,
            kind: MetricType::Counter,
            help: counts::help(count),
            labels: &[],
            values: &[],
            kernel: false,
        };
        put_single(encoder, &family, *value)?;
    }
    Ok(())
}

fn put_process(encoder: &mut Encoder, figures: &Figures) -> fmt::Result {
    let snapshot = &figures.snapshot;
    let build = spec::family(Metric::Build);
    let labels: Vec<_> = build.labels.iter().copied().zip([TWIN, VERSION]).collect();
    put_family(encoder, build)?.encode_info(&labels)?;
    let mut put = |metric, value| put_single(encoder, spec::family(metric), value);
    put(Metric::StartTimeSeconds, snapshot.started_ms / 1000)?;
    put(Metric::UptimeSeconds, snapshot.uptime_ms / 1000)?;
    put(Metric::ResidentMemoryBytes, figures.resident_bytes)
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
        put_replies(encoder, snapshot)?;
        put_connections(encoder, snapshot)?;
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
