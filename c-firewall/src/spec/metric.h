// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml: what the metrics are called.
#ifndef SPEC_METRIC_H
#define SPEC_METRIC_H

#include <stdbool.h>

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_INFO };

enum {
    METRIC_LABELS_MAX = 6,
    METRIC_VALUES_MAX = 10,
};

/// The metrics, but for the counts.
enum metric {
    METRIC_BUILD,
    METRIC_START_TIME_SECONDS,
    METRIC_UPTIME_SECONDS,
    METRIC_RESIDENT_MEMORY_BYTES,
    METRIC_PACKETS,
    METRIC_RECEIVED_PACKETS,
    METRIC_RECEIVED_BYTES,
    METRIC_BEYOND_COPY_PACKETS,
    METRIC_TRUNCATED_PACKETS,
    METRIC_UNDECIDABLE_PACKETS,
    METRIC_UNDECIDED_PACKETS,
    METRIC_WITHOUT_CT_STATE_PACKETS,
    METRIC_REFUSED_VERDICTS,
    METRIC_OVERRUNS,
    METRIC_WITHOUT_ID_MESSAGES,
    METRIC_GAP_IDS,
    METRIC_SEND_RETRIES,
    METRIC_QUEUE_OFFERED_PACKETS,
    METRIC_QUEUE_WAITING_PACKETS,
    METRIC_QUEUE_LENGTH_PACKETS,
    METRIC_QUEUE_UNSEEN_PACKETS,
    METRIC_QUEUE_STALLED_PACKETS,
    METRIC_LEDGER_DIFFERENCE_PACKETS,
    METRIC_LEDGER_RECONCILED,
    METRIC_QUEUE_LOST_PACKETS,
    METRIC_MALFORMED_PACKETS,
    METRIC_REPLIES,
    METRIC_CONNECTIONS,
    METRIC_DNS_ANSWERS,
    METRIC_POLICY_GENERATION,
    METRIC_POLICY_LOADED_TIME_SECONDS,
    METRIC_POLICY_CHAINS,
    METRIC_POLICY_RULES,
    METRIC_POLICY_RELOAD_FAILED,
    METRIC_POLICY_LEARNED_ADDRESSES,
    METRIC_RULE_PACKETS,
    METRIC_RULE_BYTES,
    METRIC_RULE_LOGGED_PACKETS,
    METRIC_FAMILY_COUNT
};

/// Samples of one name.
struct metric_family {
    const char *name;
    const char *unit; // which the name ends with; NULL = none
    enum metric_type type;
    const char *help;
    const char *labels[METRIC_LABELS_MAX + 1]; // ends with NULL
    const char *values[METRIC_VALUES_MAX + 1]; // of the last label; ends with NULL
    bool kernel; // without a sample where the kernel's figures are not known
};

/// By enum metric.
extern const struct metric_family metric_families[METRIC_FAMILY_COUNT];

#endif
