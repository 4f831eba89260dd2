// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
//! What the metrics are called.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The metrics, but for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The program and its version.
    Build,
    /// UNIX time at which the firewall started.
    StartTimeSeconds,
    /// Seconds since the firewall started.
    UptimeSeconds,
    /// Memory of the process that is in use.
    ResidentMemoryBytes,
    /// Packets answered, by verdict.
    Packets,
    /// Packets received from the queue.
    ReceivedPackets,
    /// Bytes of the packets received.
    ReceivedBytes,
    /// Packets with a header beyond the copied bytes.
    BeyondCopyPackets,
    /// Messages that the receive slot was too small for.
    TruncatedPackets,
    /// Packets whose bytes that the policy reads were not copied.
    UndecidablePackets,
    /// Packets of which a rule reads a name that is not known yet, or can't be read.
    UndecidedPackets,
    /// Packets without a connection state where the policy asks for it.
    WithoutCtStatePackets,
    /// Verdicts for packets that the kernel no longer had.
    RefusedVerdicts,
    /// Receive calls that reported lost packets.
    Overruns,
    /// Messages whose packet's id could not be read.
    WithoutIdMessages,
    /// Ids without a message, for no known reason.
    GapIds,
    /// Calls to send verdicts for which the kernel had no room.
    SendRetries,
    /// Packets that the kernel meant for the queue.
    QueueOfferedPackets,
    /// Packets that wait for a verdict.
    QueueWaitingPackets,
    /// Packets that may wait for a verdict.
    QueueLengthPackets,
    /// Packets that passed uninspected as the socket was full.
    QueueUnseenPackets,
    /// Packets answered by the guard after the deadline.
    QueueStalledPackets,
    /// Packets that the ledger does not account for.
    LedgerDifferencePackets,
    /// Whether the ledger reconciles: 1 if it does.
    LedgerReconciled,
    /// Packets that the kernel dropped, by reason.
    QueueLostPackets,
    /// Malformed packets, by reason.
    MalformedPackets,
    /// Replies to rejected packets, by what became of them.
    Replies,
    /// Connections that were followed for their names, by what became of them.
    Connections,
    /// Answers of DNS where the policy has sets that learn, by what became of them.
    DnsAnswers,
    /// Number of the policy, which counts up from 1.
    PolicyGeneration,
    /// UNIX time at which the policy was loaded.
    PolicyLoadedTimeSeconds,
    /// Chains of the policy.
    PolicyChains,
    /// Rules of the policy.
    PolicyRules,
    /// Whether the last reload failed: 1 if it did.
    PolicyReloadFailed,
    /// Addresses that the policy's sets have learnt from answers of DNS and still know.
    PolicyLearnedAddresses,
    /// Packets that a counter of a rule counted.
    RulePackets,
    /// Bytes that a counter of a rule counted.
    RuleBytes,
    /// Packets that a log statement of a rule logged.
    RuleLoggedPackets,
}

/// Samples of one name.
pub struct Family {
    pub name: &'static str,
    /// Suffix of the name.
    pub unit: Option<Unit>,
    pub kind: MetricType,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    /// Values of the last label, if they stand nowhere else.
    pub values: &'static [&'static str],
    /// Without a sample where the kernel's figures are not known.
    pub kernel: bool,
}

static FAMILIES: [Family; 38] = [
    Family {
        name: "build",
        unit: None,
        kind: MetricType::Info,
        help: "The program and its version",
        labels: &["twin", "version"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "start_time",
        unit: Some(Unit::Seconds),
        kind: MetricType::Gauge,
        help: "UNIX time at which the firewall started",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "uptime",
        unit: Some(Unit::Seconds),
        kind: MetricType::Gauge,
        help: "Seconds since the firewall started",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "resident_memory",
        unit: Some(Unit::Bytes),
        kind: MetricType::Gauge,
        help: "Memory of the process that is in use",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets answered, by verdict",
        labels: &["queue", "verdict"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "received_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets received from the queue",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "received",
        unit: Some(Unit::Bytes),
        kind: MetricType::Counter,
        help: "Bytes of the packets received",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "beyond_copy_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets with a header beyond the copied bytes",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "truncated_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Messages that the receive slot was too small for",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "undecidable_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets whose bytes that the policy reads were not copied",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "undecided_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets of which a rule reads a name that is not known yet, or can't be read",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "without_ct_state_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets without a connection state where the policy asks for it",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "refused_verdicts",
        unit: None,
        kind: MetricType::Counter,
        help: "Verdicts for packets that the kernel no longer had",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "overruns",
        unit: None,
        kind: MetricType::Counter,
        help: "Receive calls that reported lost packets",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "without_id_messages",
        unit: None,
        kind: MetricType::Counter,
        help: "Messages whose packet's id could not be read",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "gap_ids",
        unit: None,
        kind: MetricType::Counter,
        help: "Ids without a message, for no known reason",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "send_retries",
        unit: None,
        kind: MetricType::Counter,
        help: "Calls to send verdicts for which the kernel had no room",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "queue_offered_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets that the kernel meant for the queue",
        labels: &["queue"],
        values: &[],
        kernel: true,
    },
    Family {
        name: "queue_waiting_packets",
        unit: None,
        kind: MetricType::Gauge,
        help: "Packets that wait for a verdict",
        labels: &["queue"],
        values: &[],
        kernel: true,
    },
    Family {
        name: "queue_length_packets",
        unit: None,
        kind: MetricType::Gauge,
        help: "Packets that may wait for a verdict",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "queue_unseen_packets",
        unit: None,
        kind: MetricType::Gauge,
        help: "Packets that passed uninspected as the socket was full",
        labels: &["queue"],
        values: &[],
        kernel: true,
    },
    Family {
        name: "queue_stalled_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets answered by the guard after the deadline",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "ledger_difference_packets",
        unit: None,
        kind: MetricType::Gauge,
        help: "Packets that the ledger does not account for",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "ledger_reconciled",
        unit: None,
        kind: MetricType::Gauge,
        help: "Whether the ledger reconciles: 1 if it does",
        labels: &["queue"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "queue_lost_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets that the kernel dropped, by reason",
        labels: &["queue", "reason"],
        values: &["queue_full", "user_drop"],
        kernel: true,
    },
    Family {
        name: "malformed_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Malformed packets, by reason",
        labels: &["queue", "reason"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "replies",
        unit: None,
        kind: MetricType::Counter,
        help: "Replies to rejected packets, by what became of them",
        labels: &["queue", "result"],
        values: &["sent", "not_due", "failed"],
        kernel: false,
    },
    Family {
        name: "connections",
        unit: None,
        kind: MetricType::Counter,
        help: "Connections that were followed for their names, by what became of them",
        labels: &["queue", "result"],
        values: &[
            "opened",
            "other",
            "tls",
            "quic",
            "http",
            "dns",
            "denied",
            "evasion",
            "unreadable",
            "evicted",
        ],
        kernel: false,
    },
    Family {
        name: "dns_answers",
        unit: None,
        kind: MetricType::Counter,
        help: "Answers of DNS where the policy has sets that learn, by what became of them",
        labels: &["queue", "result"],
        values: &["learned", "empty", "other", "unasked", "unreadable"],
        kernel: false,
    },
    Family {
        name: "policy_generation",
        unit: None,
        kind: MetricType::Gauge,
        help: "Number of the policy, which counts up from 1",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "policy_loaded_time",
        unit: Some(Unit::Seconds),
        kind: MetricType::Gauge,
        help: "UNIX time at which the policy was loaded",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "policy_chains",
        unit: None,
        kind: MetricType::Gauge,
        help: "Chains of the policy",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "policy_rules",
        unit: None,
        kind: MetricType::Gauge,
        help: "Rules of the policy",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "policy_reload_failed",
        unit: None,
        kind: MetricType::Gauge,
        help: "Whether the last reload failed: 1 if it did",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "policy_learned_addresses",
        unit: None,
        kind: MetricType::Gauge,
        help: "Addresses that the policy's sets have learnt from answers of DNS and still know",
        labels: &[],
        values: &[],
        kernel: false,
    },
    Family {
        name: "rule_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets that a counter of a rule counted",
        labels: &["table", "chain", "position", "rule", "statement", "comment"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "rule",
        unit: Some(Unit::Bytes),
        kind: MetricType::Counter,
        help: "Bytes that a counter of a rule counted",
        labels: &["table", "chain", "position", "rule", "statement", "comment"],
        values: &[],
        kernel: false,
    },
    Family {
        name: "rule_logged_packets",
        unit: None,
        kind: MetricType::Counter,
        help: "Packets that a log statement of a rule logged",
        labels: &["table", "chain", "position", "rule", "statement", "comment"],
        values: &[],
        kernel: false,
    },
];

/// The name, type, help and labels of a metric.
pub fn family(metric: Metric) -> &'static Family {
    &FAMILIES[metric as usize]
}
