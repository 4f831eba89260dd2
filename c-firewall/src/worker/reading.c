// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
#include "worker/reading.h"

#include <string.h>
#include <time.h>

#include "queue/proc.h"

/// Returns true if packets that the guard answered may still be in the socket: the worker has not
/// received the last of them. (It receives packets in the order of their ids.)
static bool is_behind(const struct worker *worker) {
    const uint32_t stalled_to = __atomic_load_n(&worker->stalled_to, __ATOMIC_RELAXED);

    return (int32_t)(stalled_to - __atomic_load_n(&worker->last_id, __ATOMIC_RELAXED)) > 0;
}

/// Reads the worker's counters and the kernel's counters of its queue, in the order that struct
/// stats_reading requires. Returns 0, or -errno if the kernel's counters could not be read.
static int take_reading(const struct worker *worker, struct stats_reading *reading) {
    int result;

    *reading = (struct stats_reading){.received_before = stats_received(&worker->stats)};
    result = queue_proc_figures(worker->settings.number, &reading->figures);
    reading->known = result == 0;
    stats_snapshot(&worker->stats, &reading->after);
    reading->stalled = __atomic_load_n(&worker->stalled, __ATOMIC_RELAXED);
    reading->unreceived = is_behind(worker);
    return result;
}

/// Returns a measure of the packets that a ledger does not explain: the sum of its difference, of
/// unseen packets (which the difference may include), and at exit of packets that it counts twice.
/// It counts a packet twice if the kernel assigned the packet's id while the kernel's counters were
/// read.
static uint64_t unexplained(const struct ledger *ledger, bool running) {
    const uint64_t seen =
        stats_received(&ledger->stats) + ledger->user_drop + ledger->waiting + ledger->unseen;
    const uint64_t twice = !running && seen > ledger->offered ? seen - ledger->offered : 0;

    return ledger->difference + ledger->unseen + twice;
}

/// Pauses, so that the kernel can finish handling a packet: the thread that handles it may have
/// lost its CPU.
static void pause_between_readings(void) {
    const struct timespec pause = {.tv_nsec = STATS_PAUSE_NS};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void worker_reading_ledger(const struct worker *worker, bool running, struct ledger *ledger) {
    const struct queue_settings *settings = &worker->settings;
    const uint64_t in_flight = running ? settings->batch : 0;
    struct ledger taken = {0}, best = {.difference = UINT64_MAX};
    int result = 0;

    // The kernel prints the list of queues in pages. If another queue is removed between two pages,
    // this queue can be missing in the list. Therefore a missing queue is read again, too.
    for (int i = 0; i < STATS_READINGS_MAX && unexplained(&best, running) > 0; i++) {
        struct stats_reading reading;

        if (i > 0 && !running)
            pause_between_readings();
        result = take_reading(worker, &reading);
        ledger_make(&reading, settings->number, in_flight, settings->fail_open, &taken);
        if (result == 0 && unexplained(&taken, running) < unexplained(&best, running))
            best = taken;
    }
    if (best.difference == UINT64_MAX) {
        log_warn("%s: %s: the ledger lacks the kernel's figures", QUEUE_PROC_QUEUES,
                 strerror(-result));
        best = taken;
    }
    *ledger = best;
}
