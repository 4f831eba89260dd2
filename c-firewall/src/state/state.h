// SPDX-License-Identifier: GPL-2.0-or-later
// State of the running program. The main thread changes it under a lock; another thread may read it
// under the lock. Workers do not use it.
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "options/options.h"
#include "ruleset/load.h"
#include "ruleset/tally.h"
#include "state/contract.h"
#include "worker/tracked.h"
#include "worker/workers.h"

struct events;

struct state {
    pthread_mutex_t mutex;
    // Options, adjusted to the policy and the kernel; unchanged once workers run.
    struct options *options;
    uint64_t started_ms;   // UNIX time of the program's start, in milliseconds
    uint64_t started_ns;   // time of the program's start by wait_clock (monotonic, ns)
    struct loaded *loaded; // policy that decides; loaded.compiled is NULL if there is no policy
    // Sockets for reject. With a policy they are open, if possible, even if the policy does not
    // reject, so that a later policy may reject.
    struct reject reject;
    struct events *events;
    struct workers workers;
    char reload_error[LOG_TEXT_BYTES]; // failure of the last reload; "" if it succeeded
    // Result of the check whether packets have the connection state that the policy needs.
    enum tracked tracked;
    struct contract contract;
    struct contract unguarded; // failure contract for the time after the guard has ended
    bool guard_ended;          // true if the guard has ended by itself
};

/// Loads the policy, and adjusts the options to it. The options outlive the state.
/// - Returns 0, or -errno with failure filled in and everything freed.
int state_load(struct state *state, struct options *options, struct failure *failure);

/// Opens the queues, or takes them over. Adjusts the options to the kernel.
/// - taken: queues that the old process has handed over; NULL = the queues are opened.
/// - Returns 0, or -errno with failure filled in.
int state_open(struct state *state, struct worker_handover *taken, struct failure *failure);

/// Frees the state, once the workers are stopped.
void state_free(struct state *state);

void state_lock(struct state *state);
void state_unlock(struct state *state);

/// Sums the policy's counters over all queues. Must be called under the lock, or by the main
/// thread.
/// - Returns 0 or -ENOMEM with *tally zeroed.
int state_tally(const struct state *state, struct tally *tally);

#endif
