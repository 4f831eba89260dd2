// SPDX-License-Identifier: GPL-2.0-or-later
// The counters and logs of a policy, summed over all workers, for the ledger.
#ifndef RULESET_TALLY_H
#define RULESET_TALLY_H

#include <stdint.h>

#include "engine/compile.h"
#include "engine/flow.h"
#include "policy/policy.h"
#include "ruleset/load.h"

/// A zeroed one is of no policy.
struct tally {
    const struct policy *policy; // NULL = none
    const struct compiled *compiled;
    struct flow_counter *counters; // compile_counters of them
    uint64_t *logged;              // compile_logs of them
};

/// Makes a tally of a policy, which must live longer. It begins at what the policy began with.
/// - Returns 0 or -ENOMEM with *tally zeroed.
int tally_make(struct tally *tally, const struct loaded *loaded);

void tally_free(struct tally *tally);

/// Adds a worker's counters. Its thread may be running.
void tally_add(struct tally *tally, const struct flow_counters *counters);

#endif
