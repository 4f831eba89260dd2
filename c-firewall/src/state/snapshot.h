// SPDX-License-Identifier: GPL-2.0-or-later
// The program at one moment, for the control socket.
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
    uint32_t statement; // of the rule, from 0
    uint64_t packets, bytes;
};

/// A log statement of a rule.
struct snapshot_log {
    uint32_t statement;
    uint64_t packets;
};

/// A rule. Its parts lie in the snapshot's arrays.
struct snapshot_rule {
    char *rule;    // position in the text: "web.nft:6"
    char *table;   // "inet filter"
    char *chain;   // "input"
    char *text;    // canonical, on one line
    char *comment; // NULL = none
    uint32_t counter_count;
    struct snapshot_counter *counters;
    uint32_t log_count;
    struct snapshot_log *logs;
};

/// All is the snapshot's own, but for the options and the contract, which live as long as the
/// program. Times are UNIX times in milliseconds.
struct snapshot {
    uint64_t time_ms;
    uint64_t started_ms;
    uint64_t uptime_ms;      // whatever became of the clock meanwhile
    uint64_t loaded_ms;      // the policy
    uint32_t generation;     // of the policy, which counts up from 1
    const char *policy_file; // NULL = no policy; then what is said of it here is 0
    uint32_t chain_count;
    uint32_t rule_count;
    struct requirement requirement;
    enum tracked tracked;
    uint64_t learned; // addresses that the policy's sets have learnt and still know
    uint32_t ledger_count;
    struct ledger *ledgers; // one a queue
    uint64_t *stalled;      // one a queue: packets that the guard answered
    // rule_count of them, in the policy's order, if they were asked for; else NULL.
    struct snapshot_rule *rules;
    char *reload_error; // why the last reload failed; NULL = it did not
    const struct options *options;
    const struct contract *contract;
};

/// Makes a snapshot. Any thread may call it; waits while a policy is being exchanged.
/// - Returns 0 or -ENOMEM with *snapshot zeroed.
int snapshot_take(struct state *state, bool with_rules, struct snapshot *snapshot);

/// Frees what a snapshot owns. A zeroed one is fine.
void snapshot_free(struct snapshot *snapshot);

#endif
