// SPDX-License-Identifier: GPL-2.0-or-later
// Snapshot: state of the program at one moment, for the control socket.
#ifndef STATE_SNAPSHOT_H
#define STATE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"
#include "policy/requirement.h"
#include "worker/stats.h"
#include "worker/tracked.h"

struct contract;
struct state;

/// A counter statement of a rule.
struct snapshot_counter {
    uint32_t statement; // index of the statement in the rule, from 0
    uint64_t packets, bytes;
};

/// A log statement of a rule.
struct snapshot_log {
    uint32_t statement;
    uint64_t packets;
};

/// A rule with its counts. The snapshot owns the rule's texts and arrays.
struct snapshot_rule {
    char *rule;    // position in the text: "web.nft:6"
    char *table;   // family and name of the table: "inet filter"
    char *chain;   // name of the chain: "input"
    char *text;    // canonical text of the rule, on one line
    char *comment; // comment of the rule; NULL = none
    uint32_t counter_count;
    struct snapshot_counter *counters;
    uint32_t log_count;
    struct snapshot_log *logs;
};

/// State of the program at one moment. The snapshot owns all of it, except for policy_file, options
/// and contract, which live as long as the program. Times are UNIX times in milliseconds.
struct snapshot {
    uint64_t time_ms;
    uint64_t started_ms;
    uint64_t uptime_ms;  // time since the start in milliseconds, by a clock that is never set
    uint64_t loaded_ms;  // UNIX time at which the policy was loaded, in milliseconds
    uint32_t generation; // generation of the policy; the first policy has 1
    // File of the policy; NULL = no policy: then the policy's other fields are 0.
    const char *policy_file;
    uint32_t chain_count;
    uint32_t rule_count;
    struct requirement requirement;
    enum tracked tracked;
    // Number of learned addresses that have not expired, including those of sets that only an
    // earlier policy had.
    uint64_t learned;
    uint32_t ledger_count;
    struct ledger *ledgers; // ledgers, one per queue
    uint64_t *stalled;      // number of packets that the guard answered, for each queue
    // All rule_count rules in the policy's order, if they were requested; else NULL.
    struct snapshot_rule *rules;
    char *reload_error; // failure of the last reload; NULL if it succeeded
    const struct options *options;
    const struct contract *contract;
    bool guard_ended; // true if the guard has ended by itself
};

/// Creates a snapshot. Any thread may call this function, which waits while a policy is being
/// replaced.
/// - with_rules: true if the snapshot gets the policy's rules with their counts.
/// - Returns 0 or -ENOMEM with *snapshot zeroed.
int snapshot_take(struct state *state, bool with_rules, struct snapshot *snapshot);

/// Frees a snapshot's memory. A zeroed snapshot is allowed.
void snapshot_free(struct snapshot *snapshot);

#endif
