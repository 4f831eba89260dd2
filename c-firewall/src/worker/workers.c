// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    // Pause between two checks whether a worker uses a new policy or has filled in a page of its
    // connections.
    TURN_PAUSE_NS = 20000,
    // Maximum number of checks for a worker's page of connections before the listing fails: at
    // least half a second in total.
    LIST_TURNS = 25000,
    // Number of low bits of a position in the listing of connections. They contain the slot; the
    // bits above contain the worker's index.
    SLOT_BITS = 32,
};

int workers_open(struct workers *workers, const struct worker_setup *setup,
                 struct failure *failure) {
    const struct options *options = setup->options;
    const uint32_t count = options->queue_last - options->queue_first + 1U;
    int result = 0;

    *workers = (struct workers){
        .all = aligned_alloc(STATS_ALIGN, count * sizeof *workers->all),
        .ledgers = aligned_alloc(STATS_ALIGN, count * sizeof *workers->ledgers),
    };
    if (!workers->all || !workers->ledgers) {
        failure_set_start(failure, "malloc", ENOMEM);
        result = -ENOMEM;
    }
    while (result == 0 && workers->count < count) {
        result = worker_open(&workers->all[workers->count], setup, workers->count, failure);
        if (result == 0)
            workers->count++;
    }
    if (result < 0)
        workers_free(workers);
    return result;
}

int workers_start(struct workers *workers, struct failure *failure) {
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < workers->count; i++)
        result = worker_start(&workers->all[i], failure);
    if (result < 0)
        workers_stop(workers);
    return result;
}

void workers_confirm(struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        worker_confirm(&workers->all[i]);
}

void workers_swap(struct workers *workers, struct evaluation_source **sources) {
    const struct timespec pause = {.tv_nsec = TURN_PAUSE_NS};

    for (uint32_t i = 0; i < workers->count; i++)
        worker_swap(&workers->all[i], sources[i]);
    for (uint32_t i = 0; i < workers->count; i++) {
        struct evaluation_source *const old = workers->all[i].source;

        while (!worker_has_swapped(&workers->all[i]))
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        workers->all[i].source = sources[i];
        sources[i] = old;
    }
}

/// Fills in has_next and next of a listing: the position of the page after listing->page.
/// - from: position of listing->page.
/// - listing: in/out: page must be filled in.
static void next_of(const struct workers *workers, uint64_t from, struct listing *listing) {
    const uint64_t worker = from >> SLOT_BITS;

    listing->has_next = listing->page->next != CONNECTION_SLOT_NONE || worker + 1 < workers->count;
    listing->next = listing->page->next != CONNECTION_SLOT_NONE
                        ? worker << SLOT_BITS | listing->page->next
                        : (worker + 1) << SLOT_BITS;
}

int workers_list(struct workers *workers, uint64_t from, bool undecided, struct listing *listing) {
    const struct timespec pause = {.tv_nsec = TURN_PAUSE_NS};
    struct worker *worker =
        from >> SLOT_BITS < workers->count ? &workers->all[from >> SLOT_BITS] : NULL;

    if (!worker || worker_list(worker, (uint32_t)from, undecided) < 0)
        return -EAGAIN;
    for (int turn = 0; turn < LIST_TURNS; turn++) {
        listing->page = worker_listed(worker);
        if (listing->page) {
            listing->number = worker->settings.number;
            next_of(workers, from, listing);
            return 0;
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return -EAGAIN;
}

const struct worker *workers_stop(struct workers *workers) {
    const struct worker *failed = NULL;

    for (uint32_t i = 0; i < workers->count; i++)
        worker_stop(&workers->all[i], false);
    for (uint32_t i = 0; i < workers->count; i++) {
        worker_join(&workers->all[i]);
        if (!failed && workers->all[i].error != 0)
            failed = &workers->all[i];
    }
    return failed;
}

void workers_ledgers(struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        worker_ledger(&workers->all[i], &workers->ledgers[i]);
}

void workers_free(struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        worker_close(&workers->all[i]);
    free(workers->all);
    free(workers->ledgers);
    *workers = (struct workers){0};
}
