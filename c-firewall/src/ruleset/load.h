// SPDX-License-Identifier: GPL-2.0-or-later
// The policy of a running program: read, compiled, with its state.
#ifndef RULESET_LOAD_H
#define RULESET_LOAD_H

#include <stdint.h>

#include "base/log.h"
#include "engine/compile.h"
#include "engine/flow.h"
#include "options/options.h"
#include "policy/policy.h"

/// State shared by all workers. A zeroed one is no policy.
struct loaded {
    uint32_t generation;       // counts up from 1 with each policy that takes the place of another
    uint64_t loaded_ms;        // UNIX time
    struct policy policy;      // for reports
    struct compiled *compiled; // NULL = no policy
    struct flow flow;
    // What counters and logs stood at when this policy began: what its text says, or what they had
    // counted before a reload. Numbered as compile numbers them.
    struct flow_counter *counted;
    uint64_t *logged;
};

/// Loads options->policy, if there is one.
/// - Returns 0, or -errno with failure filled in and *loaded zeroed: for a policy that is wrong or
///   names an interface that is missing, and for too few --copy-bytes.
int load(struct loaded *loaded, const struct options *options, struct failure *failure);

/// Copies into the policy's learning sets what the sets of the policy before have learned, or
/// reserves room.
/// - before: NULL = there was none.
/// - Returns 0, or -ENOMEM with failure filled in.
int load_learn(struct loaded *loaded, const struct options *options, const struct loaded *before,
               struct failure *failure);

/// What the policy reads; NULL without one.
const struct requirement *load_requirement(const struct loaded *loaded);

/// Frees what load made. A zeroed one is fine.
void load_free(struct loaded *loaded);

#endif
