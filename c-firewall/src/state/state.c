// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "events/events.h"
#include "worker/wait.h"

/// Opens the sockets for reject, if there is a policy. If they can't be opened, this fails only for
/// a policy that rejects. Other policies do not need the sockets, but a later policy may reject,
/// when the right to open them is gone. Returns 0, or -errno with failure filled in.
static int open_reject(struct state *state, struct failure *failure) {
    const struct requirement *requirement = load_requirement(state->loaded);
    struct failure ignored;

    if (!requirement)
        return 0;
    if (requirement->reject)
        return reject_open(&state->reject, failure);
    reject_open(&state->reject, &ignored);
    return 0;
}

int state_load(struct state *state, struct options *options, struct failure *failure) {
    int result;

    *state = (struct state){
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .options = options,
        .started_ms = clock_unix_ms(),
        .started_ns = wait_clock(),
        .loaded = calloc(1, sizeof *state->loaded),
        .reject = {.raw4 = -1, .raw6 = -1},
    };
    if (state->loaded) {
        result = load(state->loaded, options, failure);
        if (result == 0)
            result = load_learn(state->loaded, options, NULL, failure);
        if (result == 0 && options->policy)
            options_provide(options, load_requirement(state->loaded));
    } else {
        result = -ENOMEM;
        failure_set_start(failure, "calloc", ENOMEM);
    }
    if (result < 0)
        state_free(state);
    return result;
}

int state_open(struct state *state, struct worker_handover *taken, struct failure *failure) {
    const struct worker_setup setup = {
        .options = state->options,
        .loaded = state->loaded,
        .reject = &state->reject,
        .rings = events_ring(state->events, 0),
        .taken = taken,
    };
    int result = open_reject(state, failure);

    if (result == 0)
        result = workers_open(&state->workers, &setup, failure);
    if (result < 0)
        return result;
    state->options->gso = state->workers.all[0].settings.gso;
    events_policy(state->events, state->loaded->generation,
                  state->loaded->compiled ? &state->loaded->policy : NULL, state->loaded->compiled);
    return 0;
}

void state_free(struct state *state) {
    workers_free(&state->workers);
    reject_close(&state->reject);
    if (state->loaded)
        load_free(state->loaded);
    free(state->loaded);
    *state = (struct state){0};
}

void state_lock(struct state *state) { pthread_mutex_lock(&state->mutex); }

void state_unlock(struct state *state) { pthread_mutex_unlock(&state->mutex); }

int state_tally(const struct state *state, struct tally *tally) {
    const int result = tally_make(tally, state->loaded);

    for (uint32_t i = 0; result == 0 && i < state->workers.count; i++)
        tally_add(tally, &state->workers.all[i].source->counters);
    return result;
}
