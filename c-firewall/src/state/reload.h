// SPDX-License-Identifier: GPL-2.0-or-later
// A new policy in place of the old one, while packets come. Nothing of the queues is touched.
//
// Theory of operation: the new policy is read, compiled and checked aside. Then each worker is
// given it; a worker looks between two batches, so that each packet is decided by the old or by the
// new policy, never by a mixture. When all have taken it, nobody but the events thread knows the
// old one any more: what its counters counted is added to the new one's, and it is freed.
#ifndef STATE_RELOAD_H
#define STATE_RELOAD_H

#include <stdint.h>

#include "base/log.h"

struct state;

/// Effect of a reload on the rules.
struct reload_result {
    uint32_t generation; // of the policy, which counts up from 1
    uint32_t rules;
    uint32_t kept;    // rules that go on with their counters
    uint32_t added;   // rules that are new
    uint32_t removed; // rules that are gone
    uint64_t milliseconds;
};

/// Reads options.policy again and has every packet decided by it.
/// - Returns 0 when all workers have it, or -errno with failure filled in and everything as it was:
///   what is wrong with the policy and where, or what it reads that the queues do not give.
/// - Counts, says so on stderr and keeps the failure for snapshots.
int reload(struct state *state, struct reload_result *result, struct failure *failure);

/// Counts that the policy stays, says so with the cause on stderr, and keeps the failure for
/// snapshots.
void reload_refuse(struct state *state, const struct failure *failure);

#endif
