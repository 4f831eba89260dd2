// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write close
#include "worker/worker.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/reading.h"
#include "worker/run.h"

void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id) {
    __atomic_store_n(&worker->stalled_to, id, __ATOMIC_RELAXED);
    __atomic_fetch_add(&worker->stalled, packets, __ATOMIC_RELAXED);
}

static bool has_ended(const struct worker *worker) {
    return __atomic_load_n(&worker->ended, __ATOMIC_ACQUIRE);
}

void worker_ledger(const struct worker *worker, struct ledger *ledger) {
    if (has_ended(worker))
        *ledger = worker->ledger;
    else
        worker_reading_ledger(worker, true, ledger);
}

/// Opens the worker's queue, or adopts the queue that another process hands over.
/// - taken: in/out: queue to adopt, whose descriptor is -1 afterwards; NULL = the queue is opened.
/// - Returns 0, or -errno with failure filled in.
static int open_queue(struct worker *worker, struct worker_handover *taken,
                      struct failure *failure) {
    int result;

    if (taken) {
        result = queue_adopt(&worker->queue, &worker->settings, &taken->handover, failure);
        taken->handover.fd = -1; // the queue owns it now, or it is closed
    } else {
        result = queue_open(&worker->queue, &worker->settings, failure);
    }
    if (result < 0)
        return result;
    worker->settings.receive_buffer = worker->queue.receive_buffer;
    worker->settings.gso = worker->queue.flags & NFQA_CFG_F_GSO;
    worker->confirmed = worker->queue.bound;
    worker->handover = (struct queue_handover){.fd = queue_fd(&worker->queue),
                                               .copy_bytes = worker->settings.copy_bytes,
                                               .flags = worker->queue.flags};
    return 0;
}

int worker_open(struct worker *worker, const struct worker_setup *setup, uint32_t index,
                struct failure *failure) {
    const struct options *options = setup->options;
    const struct requirement *requirement = load_requirement(setup->loaded);
    const uint16_t number = (uint16_t)(options->queue_first + index);
    struct elements elements = {.socket = -1};
    int result = 0;

    *worker = (struct worker){
        .settings = options_queue(options, requirement, number),
        .paper = options->profile == OPTIONS_PAPER,
        .spin_us = options->spin_us,
        .coalesce_us = options->coalesce_us,
        .cpu = options->pin ? (int)index : -1,
        .source = evaluate_source_make(setup->loaded),
        .wake_fd = eventfd(0, EFD_CLOEXEC),
        .evaluation.elements.socket = -1,
    };
    if (!worker->source) {
        result = -ENOMEM;
        failure_set_start(failure, "calloc", ENOMEM);
    } else if (worker->wake_fd < 0) {
        result = -errno;
        failure_set_start(failure, "eventfd", -result);
    } else if (options->stage != 0) { // a later policy may learn
        result = elements_open(&elements, failure);
    }
    if (result == 0) {
        worker->gaps = options->fail_open[OPTIONS_MALFORMED] ? VERDICT_ACCEPT : VERDICT_DROP;
        verdict_batch_begin(&worker->batch, worker->gaps);
        result = evaluate_init(&worker->evaluation, options, worker->source, setup->reject,
                               elements, &setup->rings[index]);
        if (result < 0)
            failure_set_start(failure, "calloc", -result);
        else
            result = open_queue(worker, setup->taken ? &setup->taken[index] : NULL, failure);
    }
    if (result < 0)
        worker_close(worker);
    return result;
}

void worker_go_on(struct worker *worker, const struct stats *counted, uint64_t stalled) {
    worker->stats = *counted;
    worker->stalled = stalled;
}

int worker_start(struct worker *worker, struct failure *failure) {
    int error;

    worker->stop = false;
    worker->ended = false;
    error = pthread_create(&worker->thread, NULL, worker_run, worker);
    if (error != 0) {
        failure_set_start(failure, "pthread_create", error);
        return -error;
    }
    worker->started = true;
    return 0;
}

void worker_confirm(struct worker *worker) {
    __atomic_store_n(&worker->confirmed, true, __ATOMIC_RELAXED);
}

static void wake(struct worker *worker) { eventfd_write(worker->wake_fd, 1); }

void worker_swap(struct worker *worker, struct evaluation_source *next) {
    worker->next = next;
    __atomic_store_n(&worker->swap, true, __ATOMIC_RELEASE);
    wake(worker);
}

bool worker_has_swapped(const struct worker *worker) {
    return !__atomic_load_n(&worker->swap, __ATOMIC_ACQUIRE) || has_ended(worker);
}

int worker_list(struct worker *worker, uint32_t from, bool undecided) {
    if (!worker_listed(worker) || has_ended(worker))
        return -EAGAIN;
    worker->page.from = from;
    worker->page.undecided = undecided;
    worker->page.next = CONNECTION_SLOT_NONE;
    worker->page.count = 0;
    if (worker->evaluation.connections) {
        __atomic_store_n(&worker->lists, true, __ATOMIC_RELEASE);
        wake(worker);
    }
    return 0;
}

const struct listing_page *worker_listed(const struct worker *worker) {
    return __atomic_load_n(&worker->lists, __ATOMIC_ACQUIRE) ? NULL : &worker->page;
}

void worker_ask_turn(struct worker *worker) {
    __atomic_store_n(&worker->asked, true, __ATOMIC_RELEASE);
    wake(worker);
}

bool worker_has_turned(const struct worker *worker) {
    return !__atomic_load_n(&worker->asked, __ATOMIC_ACQUIRE) || has_ended(worker);
}

void worker_stop(struct worker *worker, bool keep_open) {
    worker->keep_open = keep_open;
    __atomic_store_n(&worker->stop, true, __ATOMIC_RELEASE);
    wake(worker);
}

void worker_join(struct worker *worker) {
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

struct connections *worker_connections(struct worker *worker) {
    return worker->source->requirement.names ? worker->evaluation.connections : NULL;
}

void worker_close(struct worker *worker) {
    queue_close(&worker->queue);
    if (worker->wake_fd >= 0)
        close(worker->wake_fd);
    worker->wake_fd = -1;
    evaluate_free(&worker->evaluation);
    evaluate_source_free(worker->source);
    worker->source = NULL;
}
