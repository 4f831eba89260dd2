// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
#include "spec/metric.h"

#include <stddef.h>

const struct metric_family metric_families[METRIC_FAMILY_COUNT] = {
    [METRIC_BUILD] =
        {
            .name = "build",
            .unit = NULL,
            .type = METRIC_INFO,
            .help = "The program and its version",
            .labels = {"twin", "version", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_START_TIME_SECONDS] =
        {
            .name = "start_time",
            .unit = "seconds",
            .type = METRIC_GAUGE,
            .help = "UNIX time at which the firewall started",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_UPTIME_SECONDS] =
        {
            .name = "uptime",
            .unit = "seconds",
            .type = METRIC_GAUGE,
            .help = "Seconds since the firewall started",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RESIDENT_MEMORY_BYTES] =
        {
            .name = "resident_memory",
            .unit = "bytes",
            .type = METRIC_GAUGE,
            .help = "Memory of the process that is in use",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_PACKETS] =
        {
            .name = "packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets answered, by verdict",
            .labels = {"queue", "verdict", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RECEIVED_PACKETS] =
        {
            .name = "received_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets received from the queue",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RECEIVED_BYTES] =
        {
            .name = "received",
            .unit = "bytes",
            .type = METRIC_COUNTER,
            .help = "Bytes of the packets received",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_BEYOND_COPY_PACKETS] =
        {
            .name = "beyond_copy_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets with a header beyond the copied bytes",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_TRUNCATED_PACKETS] =
        {
            .name = "truncated_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Messages that the receive slot was too small for",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_UNDECIDABLE_PACKETS] =
        {
            .name = "undecidable_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets whose bytes that the policy reads were not copied",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_UNDECIDED_PACKETS] =
        {
            .name = "undecided_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets of which a rule reads a name that is not known yet, or can't be read",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_WITHOUT_CT_STATE_PACKETS] =
        {
            .name = "without_ct_state_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets without a connection state where the policy asks for it",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_REFUSED_VERDICTS] =
        {
            .name = "refused_verdicts",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Verdicts for packets that the kernel no longer had",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_OVERRUNS] =
        {
            .name = "overruns",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Receive calls that reported lost packets",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_WITHOUT_ID_MESSAGES] =
        {
            .name = "without_id_messages",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Messages whose packet's id could not be read",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_GAP_IDS] =
        {
            .name = "gap_ids",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Ids without a message, for no known reason",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_SEND_RETRIES] =
        {
            .name = "send_retries",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Calls to send verdicts for which the kernel had no room",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_QUEUE_OFFERED_PACKETS] =
        {
            .name = "queue_offered_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets that the kernel meant for the queue",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = true,
        },
    [METRIC_QUEUE_WAITING_PACKETS] =
        {
            .name = "queue_waiting_packets",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Packets that wait for a verdict",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = true,
        },
    [METRIC_QUEUE_LENGTH_PACKETS] =
        {
            .name = "queue_length_packets",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Packets that may wait for a verdict",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_QUEUE_UNSEEN_PACKETS] =
        {
            .name = "queue_unseen_packets",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Packets that passed uninspected as the socket was full",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = true,
        },
    [METRIC_QUEUE_STALLED_PACKETS] =
        {
            .name = "queue_stalled_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets answered by the guard after the deadline",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_LEDGER_DIFFERENCE_PACKETS] =
        {
            .name = "ledger_difference_packets",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Packets that the ledger does not account for",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_LEDGER_RECONCILED] =
        {
            .name = "ledger_reconciled",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Whether the ledger reconciles: 1 if it does",
            .labels = {"queue", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_QUEUE_LOST_PACKETS] =
        {
            .name = "queue_lost_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets that the kernel dropped, by reason",
            .labels = {"queue", "reason", NULL},
            .values = {"queue_full", "user_drop", NULL},
            .kernel = true,
        },
    [METRIC_MALFORMED_PACKETS] =
        {
            .name = "malformed_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Malformed packets, by reason",
            .labels = {"queue", "reason", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_REPLIES] =
        {
            .name = "replies",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Replies to rejected packets, by what became of them",
            .labels = {"queue", "result", NULL},
            .values = {"sent", "not_due", "failed", NULL},
            .kernel = false,
        },
    [METRIC_CONNECTIONS] =
        {
            .name = "connections",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Connections that were followed for their names, by what became of them",
            .labels = {"queue", "result", NULL},
            .values = {"opened", "other", "tls", "quic", "http", "dns", "denied",
                       "evasion", "unreadable", "evicted", NULL},
            .kernel = false,
        },
    [METRIC_DNS_ANSWERS] =
        {
            .name = "dns_answers",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Answers of DNS where the policy has sets that learn, by what became of them",
            .labels = {"queue", "result", NULL},
            .values = {"learned", "empty", "other", "unasked", "unreadable", NULL},
            .kernel = false,
        },
    [METRIC_POLICY_GENERATION] =
        {
            .name = "policy_generation",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Number of the policy, which counts up from 1",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_POLICY_LOADED_TIME_SECONDS] =
        {
            .name = "policy_loaded_time",
            .unit = "seconds",
            .type = METRIC_GAUGE,
            .help = "UNIX time at which the policy was loaded",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_POLICY_CHAINS] =
        {
            .name = "policy_chains",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Chains of the policy",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_POLICY_RULES] =
        {
            .name = "policy_rules",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Rules of the policy",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_POLICY_RELOAD_FAILED] =
        {
            .name = "policy_reload_failed",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Whether the last reload failed: 1 if it did",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_POLICY_LEARNED_ADDRESSES] =
        {
            .name = "policy_learned_addresses",
            .unit = NULL,
            .type = METRIC_GAUGE,
            .help = "Addresses that the policy's sets have learnt from answers of DNS and still "
                    "know",
            .labels = {NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RULE_PACKETS] =
        {
            .name = "rule_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets that a counter of a rule counted",
            .labels = {"table", "chain", "position", "rule", "statement", "comment", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RULE_BYTES] =
        {
            .name = "rule",
            .unit = "bytes",
            .type = METRIC_COUNTER,
            .help = "Bytes that a counter of a rule counted",
            .labels = {"table", "chain", "position", "rule", "statement", "comment", NULL},
            .values = {NULL},
            .kernel = false,
        },
    [METRIC_RULE_LOGGED_PACKETS] =
        {
            .name = "rule_logged_packets",
            .unit = NULL,
            .type = METRIC_COUNTER,
            .help = "Packets that a log statement of a rule logged",
            .labels = {"table", "chain", "position", "rule", "statement", "comment", NULL},
            .values = {NULL},
            .kernel = false,
        },
};
