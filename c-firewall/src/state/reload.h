// SPDX-License-Identifier: GPL-2.0-or-later
// Reload: replacement of the policy while packets arrive. The queues stay as they are.
//
// Theory of operation: the new policy is read, compiled and checked first. Then it is set for each
// worker. A worker changes the policy between two batches, so that each packet is decided by either
// the old or the new policy. When all workers have changed, the counters of rules that both
// policies have continue with the old policy's values, the records of packets that the old policy
// decided become events, and the old policy is freed.
#ifndef STATE_RELOAD_H
#define STATE_RELOAD_H

#include <stdint.h>

#include "base/log.h"

struct state;

/// Effect of a reload on the rules.
struct reload_result {
    uint32_t generation; // generation of the new policy; the first policy has 1
    uint32_t rules;
    // Number of rules that both policies have. Their counters continue.
    uint32_t kept;
    uint32_t added;   // number of rules that only the new policy has
    uint32_t removed; // number of rules that only the old policy had
    uint64_t milliseconds;
};

/// Reads options.policy again and makes it decide all packets.
/// - Returns 0 when all workers have changed, or -errno with failure filled in and everything as it
///   was: the policy is invalid, or needs packet data that the queues do not provide or a right
///   that the process no longer has.
/// - The result is counted and logged; a failure is also stored for snapshots.
int reload(struct state *state, struct reload_result *result, struct failure *failure);

/// Counts and logs a failed reload, after which the old policy stays, and stores the failure for
/// snapshots.
void reload_refuse(struct state *state, const struct failure *failure);

#endif
