// SPDX-License-Identifier: GPL-2.0-or-later
// Sums of a policy's counters and logs over all workers, for the ledger.
#ifndef RULESET_TALLY_H
#define RULESET_TALLY_H

#include <stdint.h>

#include "engine/compile.h"
#include "engine/flow.h"
#include "policy/policy.h"
#include "ruleset/load.h"

/// Sums of a policy's counters and logs over all workers. Zeroed = no policy.
struct tally {
    const struct policy *policy; // policy; NULL = none
    const struct compiled *compiled;
    struct flow_counter *counters; // sum of each counter; compile_counters returns their number
    uint64_t *logged;              // sum of each log; compile_logs returns their number
};

/// Creates the sums of a policy, which begin with the initial values of its counters and logs. The
/// policy must outlive the sums.
/// - Returns 0 or -ENOMEM with *tally zeroed.
int tally_make(struct tally *tally, const struct loaded *loaded);

void tally_free(struct tally *tally);

/// Adds a worker's counters and logs to the sums. The worker's thread may run meanwhile.
void tally_add(struct tally *tally, const struct flow_counters *counters);

#endif
