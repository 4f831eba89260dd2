// SPDX-License-Identifier: GPL-2.0-or-later
// What runs, for the threads that tell of it. The main thread changes it, under the lock; others
// read it under the lock. Workers know nothing of it.
#ifndef STATE_H
#define STATE_H

#include <pthread.h>
#include <stdint.h>

#include "load.h"
#include "log.h"
#include "options.h"
#include "tally.h"
#include "workers.h"

struct contract;

struct state {
    pthread_mutex_t mutex;
    const struct options *options;
    uint64_t started_ms;   // UNIX time
    struct loaded *loaded; // the policy that decides, or that there is none
    struct loaded *old;    // the one before, while there may be events of it; else NULL
    struct reject reject;  // open if it could be, so that a later policy may reject
    struct workers workers;
    uint64_t *stalled;                 // one a worker: packets that the guard answered
    char reload_error[LOG_TEXT_BYTES]; // why the last reload failed; "" = it did not
    const struct contract *contract;   // NULL until it is known
};

/// Loads the policy, opens the queues and starts the workers. Changes the options to what the
/// policy and the kernel made of them; they live longer.
/// - Returns 0, or -errno with failure filled in and all freed.
int state_start(struct state *state, struct options *options, struct failure *failure);

/// Frees what state_start made, once the workers are stopped.
void state_free(struct state *state);

void state_lock(struct state *state);
void state_unlock(struct state *state);

/// The policy that packets of this generation were decided by, as long as there may be some;
/// otherwise NULL. To be called, and the policy to be used, under the lock.
const struct loaded *state_policy(const struct state *state, uint32_t generation);

/// Sums the counters of the policy in all queues. To be called under the lock, or by the main
/// thread.
/// - Returns 0 or -ENOMEM with *tally zeroed.
int state_tally(const struct state *state, struct tally *tally);

#endif
