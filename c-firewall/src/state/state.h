// SPDX-License-Identifier: GPL-2.0-or-later
// The state of the running program, for the threads that report it. The main thread changes it,
// under the lock; others read it under the lock. Workers know nothing of it.
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include <pthread.h>
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
    struct options *options; // unchanged once workers run
    uint64_t started_ms;     // UNIX time
    uint64_t started_ns;     // wait_clock
    struct loaded *loaded;   // the policy that decides; without one it says so
    struct reject reject;    // open if it could be, so that a later policy may reject
    struct events *events;
    struct workers workers;
    char reload_error[LOG_TEXT_BYTES]; // why the last reload failed; "" = it did not
    enum tracked tracked;              // whether packets have the state that the policy asks for
    struct contract contract;
    struct contract unguarded; // contract once the guard has ended
};

/// Loads the policy. Changes the options to what it made of them; they live longer.
/// - Returns 0, or -errno with failure filled in and all freed.
int state_load(struct state *state, struct options *options, struct failure *failure);

/// Opens the queues, or takes them over. Changes the options to what the kernel made of them.
/// - taken: one a queue; NULL = they are opened.
/// - Returns 0, or -errno with failure filled in.
int state_open(struct state *state, struct worker_handover *taken, struct failure *failure);

/// Frees what is there, once the workers are stopped.
void state_free(struct state *state);

void state_lock(struct state *state);
void state_unlock(struct state *state);

/// Sums the counters of the policy in all queues. To be called under the lock, or by the main
/// thread.
/// - Returns 0 or -ENOMEM with *tally zeroed.
int state_tally(const struct state *state, struct tally *tally);

#endif
