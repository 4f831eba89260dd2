// SPDX-License-Identifier: GPL-2.0-or-later
#include "state.h"

#include <errno.h>
#include <stdlib.h>

#include "report.h"

/// Opens the sockets of reject if the policy asks for answers, or else if that can be had: a later
/// policy may ask for them, when the right to open them is gone. Returns 0, or -errno with failure
/// filled in.
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

/// Loads the policy. Returns 0, or -errno with failure filled in.
static int load_policy(struct state *state, struct options *options, struct failure *failure) {
    state->loaded = calloc(1, sizeof *state->loaded);
    state->stalled = calloc(options->queue_last - options->queue_first + 1U, sizeof(uint64_t));
    if (!state->loaded || !state->stalled) {
        failure_set_start(failure, "calloc", ENOMEM);
        return -ENOMEM;
    }
    return load(state->loaded, options, failure);
}

int state_start(struct state *state, struct options *options, struct failure *failure) {
    int result;

    *state = (struct state){
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .options = options,
        .started_ms = report_time(),
        .reject = {.raw4 = -1, .raw6 = -1, .probe = -1},
    };
    result = load_policy(state, options, failure);
    if (result == 0)
        result = open_reject(state, failure);
    if (result == 0)
        result = workers_start(&state->workers, options, state->loaded, &state->reject, failure);
    if (result < 0) {
        state_free(state);
        return result;
    }
    options->gso = state->workers.all[0].settings.gso;
    return 0;
}

void state_free(struct state *state) {
    workers_free(&state->workers);
    reject_close(&state->reject);
    if (state->loaded)
        load_free(state->loaded);
    free(state->loaded);
    free(state->stalled);
    *state = (struct state){0};
}

void state_lock(struct state *state) { pthread_mutex_lock(&state->mutex); }

void state_unlock(struct state *state) { pthread_mutex_unlock(&state->mutex); }

const struct loaded *state_policy(const struct state *state, uint32_t generation) {
    if (state->loaded->generation == generation)
        return state->loaded;
    return state->old && state->old->generation == generation ? state->old : NULL;
}

int state_tally(const struct state *state, struct tally *tally) {
    const int result = tally_make(tally, state->loaded);

    for (uint32_t i = 0; result == 0 && i < state->workers.count; i++)
        tally_add(tally, &state->workers.all[i].source->counters);
    return result;
}
