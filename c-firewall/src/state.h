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
#include "worker.h"

struct contract;

struct state {
    pthread_mutex_t mutex;
    const struct options *options;
    uint64_t started_ms; // UNIX time, as is loaded_ms
    uint64_t loaded_ms;
    uint32_t generation;   // of the policy, which counts up from 1
    struct loaded *loaded; // the policy that decides, or that there is none
    struct loaded *old;    // of generation - 1, while there may be events of it; else NULL
    struct workers workers;
    uint64_t *stalled;                 // one a worker
    char reload_error[LOG_TEXT_BYTES]; // why the last reload failed; "" = it did not
    const struct contract *contract;   // NULL until it is known
};

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
