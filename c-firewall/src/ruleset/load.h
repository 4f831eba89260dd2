// SPDX-License-Identifier: GPL-2.0-or-later
// Policy of a running program: parsed, compiled, with its state.
#ifndef RULESET_LOAD_H
#define RULESET_LOAD_H

#include <stdint.h>

#include "base/log.h"
#include "engine/compile.h"
#include "engine/flow.h"
#include "options/options.h"
#include "policy/policy.h"

/// A loaded policy, shared by all workers. Zeroed = no policy.
struct loaded {
    uint32_t generation;  // generation: counts up from 1 with each policy that replaces another
    uint64_t loaded_ms;   // time of loading (UNIX time in milliseconds)
    struct policy policy; // policy as parsed; packets are decided by compiled
    struct compiled *compiled; // compiled policy; NULL = no policy
    struct flow flow;
    // Initial values of counters and logs: from the policy's text (0 for logs). For rules that the
    // previous policy has, too, migration_end replaces them by the final values in the previous
    // policy. The indexes are those of compile.
    struct flow_counter *counted;
    uint64_t *logged;
};

/// Loads the policy file options->policy, and logs the report and the warnings of policy/advice.
/// Returns 0 with *loaded zeroed if options->policy is not set.
/// - Returns 0, or -errno with failure filled in and *loaded zeroed: for an invalid policy, for a
///   missing interface, and if the options don't provide the packet data that the policy needs.
int load(struct loaded *loaded, const struct options *options, struct failure *failure);

/// Sets the table of addresses that the policy's sets learn: the previous policy's table, if it has
/// one; otherwise an empty table, if this policy learns addresses.
/// - before: previous policy; NULL = none.
/// - Returns 0, or -ENOMEM with failure filled in.
int load_learn(struct loaded *loaded, const struct options *options, const struct loaded *before,
               struct failure *failure);

/// Returns the requirement of the policy: the packet data that it needs; NULL without a policy.
const struct requirement *load_requirement(const struct loaded *loaded);

/// Frees everything that a loaded policy owns. A zeroed policy is allowed.
void load_free(struct loaded *loaded);

#endif
