// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close fcntl futex poll read write
#include "events/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/counts.h"
#include "events/gather.h"
#include "worker/wait.h"

enum {
    BUSY_MS = 5, // time between reads of the rings while records arrive, in milliseconds
    // Time between attempts to report missed events or to reopen a sink, in milliseconds.
    WAIT_MS = 1000,
    // Indexes of the polled descriptors: after the wake-up comes the sink, then the clients.
    SINK_POLLED = 1,
    TAILS_POLLED = 2,
};

#define NS_PER_SECOND UINT64_C(1000000000)
#define STOP_NS NS_PER_SECOND // maximum time for writing the remaining lines at the end

struct events {
    pthread_mutex_t lock; // protects the fields that other threads use, too
    struct events_gather gather;
    int file; // open file of --events, if the destination is a file; -1 = none
    bool rotate;
    bool stop;
    bool started;
    pthread_t thread;
};

static void wake(const struct events *events) { eventfd_write(events->gather.bell.fd, 1); }

int events_open(struct events **events, const struct options *options, int inherited,
                struct failure *failure) {
    struct events *made = calloc(1, sizeof *made);
    int result = made ? 0 : -ENOMEM;

    if (result == 0) {
        pthread_mutex_init(&made->lock, NULL);
        result = events_gather_make(&made->gather, options);
    }
    if (result < 0) {
        failure_set_start(failure, result == -ENOMEM ? "malloc" : "eventfd", -result);
        if (inherited >= 0)
            close(inherited);
    } else if (options->events) {
        result = events_sink_open(&made->gather.sink, options, inherited, failure);
    }
    if (result < 0) {
        events_close(made);
        return result;
    }
    made->file = events_sink_file(&made->gather.sink);
    events_gather_want(&made->gather);
    *events = made;
    return 0;
}

struct event_ring *events_ring(struct events *events, uint32_t index) {
    return &events->gather.rings[index];
}

int events_fd(struct events *events) {
    int fd = -1;

    pthread_mutex_lock(&events->lock);
    if (events->file >= 0)
        fd = fcntl(events->file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    pthread_mutex_unlock(&events->lock);
    return fd;
}

void events_policy(struct events *events, uint32_t generation, const struct policy *policy,
                   const struct compiled *compiled) {
    pthread_mutex_lock(&events->lock);
    events_gather_know(&events->gather, generation, policy, compiled);
    pthread_mutex_unlock(&events->lock);
}

void events_tell(struct events *events, enum events_kind kind, const struct events_facts *facts) {
    pthread_mutex_lock(&events->lock);
    events_gather_tell(&events->gather, kind, facts);
    pthread_mutex_unlock(&events->lock);
    wake(events);
}

void events_drain(struct events *events) {
    pthread_mutex_lock(&events->lock);
    events_gather_convert(&events->gather);
    events_gather_forget(&events->gather);
    pthread_mutex_unlock(&events->lock);
    wake(events);
}

void events_rotate(struct events *events) {
    pthread_mutex_lock(&events->lock);
    events->rotate = true;
    pthread_mutex_unlock(&events->lock);
    wake(events);
}

int events_tail(struct events *events, int fd, uint32_t verdicts, bool packets) {
    static const char answer[] = "{\"ok\":true}\n";
    int result = -EBUSY;

    pthread_mutex_lock(&events->lock);
    for (int i = 0; result == -EBUSY && i < EVENTS_TAILS_MAX; i++) {
        struct events_tail *tail = &events->gather.tails[i];

        if (events_gather_is_tail(tail))
            continue;
        result = events_sink_client(&tail->sink, fd);
        if (result < 0)
            break;
        tail->verdicts = verdicts;
        tail->packets = packets;
        events_sink_append(&tail->sink, answer, sizeof answer - 1);
        counts_add(COUNT_TAIL_CLIENTS, 1);
    }
    events_gather_want(&events->gather);
    pthread_mutex_unlock(&events->lock);
    wake(events);
    return result;
}

/// Writes to a client, and removes it if its connection is closed.
static void flush_tail(struct events *events, struct events_tail *tail, uint64_t now_ns) {
    events_sink_look(&tail->sink, now_ns);
    events_sink_flush(&tail->sink, &events->lock, now_ns);
    if (tail->sink.fd >= 0)
        return;
    pthread_mutex_lock(&events->lock);
    events_sink_close(&tail->sink);
    events_gather_want(&events->gather);
    pthread_mutex_unlock(&events->lock);
}

/// Writes pending lines to all sinks, as many as each accepts at once. Only the thread closes
/// sinks, once it runs.
static void flush(struct events *events, uint64_t now_ns) {
    bool tails[EVENTS_TAILS_MAX];
    bool rotate;

    pthread_mutex_lock(&events->lock);
    rotate = events->rotate;
    events->rotate = false;
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        tails[i] = events_gather_is_tail(&events->gather.tails[i]);
    pthread_mutex_unlock(&events->lock);
    if (rotate)
        events_sink_rotate(&events->gather.sink);
    if (events_gather_has_sink(&events->gather)) {
        events_sink_look(&events->gather.sink, now_ns);
        events_sink_flush(&events->gather.sink, &events->lock, now_ns);
        pthread_mutex_lock(&events->lock);
        events->file = events_sink_file(&events->gather.sink);
        events_sink_former_close(&events->gather.sink);
        pthread_mutex_unlock(&events->lock);
    }
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (tails[i])
            flush_tail(events, &events->gather.tails[i], now_ns);
}

/// Returns the number of lines that are not written yet.
static uint64_t left(struct events *events) {
    uint64_t lines;

    pthread_mutex_lock(&events->lock);
    lines = events_gather_has_sink(&events->gather) ? events_sink_left(&events->gather.sink) : 0;
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (events_gather_is_tail(&events->gather.tails[i]))
            lines += events_sink_left(&events->gather.tails[i].sink);
    pthread_mutex_unlock(&events->lock);
    return lines;
}

/// Marks the thread as asleep, so that workers wake it, and checks the rings once more. Returns
/// true if a ring has a record; then the mark is removed.
static bool fall_asleep(struct events *events) {
    bool found = false;

    atomic_store_explicit(&events->gather.bell.asleep, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); // see event_ring_wake
    for (uint32_t i = 0; i < events->gather.ring_count; i++)
        found |= event_peek(&events->gather.rings[i]) != NULL;
    if (found)
        atomic_store_explicit(&events->gather.bell.asleep, false, memory_order_relaxed);
    return found;
}

/// Waits for records, a wake-up, or an event of a sink.
/// - timeout_ms: maximum time to wait; -1 = no limit.
static void rest(struct events *events, int timeout_ms) {
    struct pollfd polled[TAILS_POLLED + EVENTS_TAILS_MAX] = {{events->gather.bell.fd, POLLIN, 0}};
    eventfd_t woken;

    pthread_mutex_lock(&events->lock);
    polled[SINK_POLLED] =
        (struct pollfd){events_gather_has_sink(&events->gather) ? events->gather.sink.fd : -1,
                        events_sink_events(&events->gather.sink), 0};
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        const struct events_tail *tail = &events->gather.tails[i];

        polled[TAILS_POLLED + i] = (struct pollfd){events_gather_is_tail(tail) ? tail->sink.fd : -1,
                                                   events_sink_events(&tail->sink), 0};
    }
    pthread_mutex_unlock(&events->lock);
    // Sinks without events to wait for are left out, because poll would still report a closed
    // connection.
    if (polled[SINK_POLLED].events == 0)
        polled[SINK_POLLED].fd = -1;
    poll(polled, sizeof polled / sizeof *polled, timeout_ms);
    atomic_store_explicit(&events->gather.bell.asleep, false, memory_order_relaxed);
    eventfd_read(events->gather.bell.fd, &woken);
}

/// Does one round of work: converts records to lines, and writes lines. Returns the maximum time to
/// wait until the next round, in milliseconds; -1 = no limit.
static int work(struct events *events) {
    const uint64_t now_ns = wait_clock();
    bool found, waits;

    pthread_mutex_lock(&events->lock);
    found = events_gather_convert(&events->gather);
    waits = events_gather_tell_missed(&events->gather, now_ns);
    pthread_mutex_unlock(&events->lock);
    flush(events, now_ns);
    if (found || fall_asleep(events))
        return BUSY_MS;
    return waits || left(events) > 0 ? WAIT_MS : -1;
}

static bool is_stopped(struct events *events) {
    bool stop;

    pthread_mutex_lock(&events->lock);
    stop = events->stop;
    pthread_mutex_unlock(&events->lock);
    return stop;
}

static void *run(void *argument) {
    struct events *events = argument;
    uint64_t until_ns;

    while (!is_stopped(events))
        rest(events, work(events));
    until_ns = wait_clock() + STOP_NS;
    events->gather.told_ns = 0; // the loop below reports missed events at once
    do {
        work(events);
        if (left(events) == 0)
            break;
        rest(events, BUSY_MS);
    } while (wait_clock() < until_ns);
    return NULL;
}

int events_start(struct events *events, struct failure *failure) {
    int error;

    if (!events->gather.can_be_wanted)
        return 0;
    events->stop = false;
    error = pthread_create(&events->thread, NULL, run, events);
    if (error != 0) {
        failure_set_start(failure, "pthread_create", error);
        return -error;
    }
    events->started = true;
    return 0;
}

void events_stop(struct events *events) {
    uint64_t lines;

    if (!events->started)
        return;
    pthread_mutex_lock(&events->lock);
    events->stop = true;
    pthread_mutex_unlock(&events->lock);
    wake(events);
    pthread_join(events->thread, NULL);
    events->started = false;
    lines = events_gather_has_sink(&events->gather) ? events_sink_left(&events->gather.sink) : 0;
    if (lines > 0) {
        counts_add(COUNT_EVENTS_FAILED, lines);
        log_warn("events: %" PRIu64 " could not be written to %s", lines, events->gather.sink.path);
    }
}

void events_close(struct events *events) {
    if (!events)
        return;
    events_gather_free(&events->gather);
    pthread_mutex_destroy(&events->lock);
    free(events);
}
