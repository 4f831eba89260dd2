// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll clock_nanosleep sched_yield sched_getaffinity sched_setaffinity kill write close
#include "worker/worker.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "packet/packet.h"
#include "queue/proc.h"

static bool is_stopped(const struct worker *worker) {
    return __atomic_load_n(&worker->stop, __ATOMIC_ACQUIRE);
}

/// Takes another policy, if there is one to take: between two batches, so that each packet is
/// decided by one alone.
static void look_for_swap(struct worker *worker) {
    if (!__atomic_load_n(&worker->swap, __ATOMIC_ACQUIRE))
        return;
    worker->evaluation.source = worker->next;
    __atomic_store_n(&worker->swap, false, __ATOMIC_RELEASE);
}

/// Notes the call that ended the loop. error: -errno. Returns it.
static int fail(struct worker *worker, const char *call, int error) {
    worker->failed_call = call;
    worker->error = -error;
    return error;
}

static void count_received(struct worker *worker, const struct queue_received *received) {
    stats_add(&worker->stats.received, received->ids);
    stats_add(&worker->stats.without_id, received->nameless);
    stats_add(&worker->stats.netlink, received->malformed);
    stats_add(&worker->stats.refused, received->refused);
    stats_add(&worker->stats.overruns, received->overruns);
    if (received->overruns > 0)
        verdict_batch_overrun(&worker->batch);
}

/// Receives, and counts what needs no verdict.
static int receive(struct worker *worker, struct queue_received *received) {
    const int result = queue_receive(&worker->queue, received);

    if (result < 0)
        return fail(worker, worker->queue.failed_call, result);
    count_received(worker, received);
    return 0;
}

/// Sees to it that what waits in a queue that another process had is as we want it.
static int resume(struct worker *worker) {
    struct queue_received received = {0};
    const int result = queue_resume(&worker->queue, &worker->batch, &received);

    count_received(worker, &received);
    stats_add(&worker->stats.verdicts[VERDICT_REQUEUE], received.ids);
    return result < 0 ? fail(worker, worker->queue.failed_call, result) : 0;
}

/// Parses and counts. With --copy-bytes 0 there is nothing to parse: every header lies beyond the
/// copy.
static enum packet_status inspect(struct worker *worker, const struct queue_packet *packet,
                                  struct packet *parsed) {
    enum packet_status status = PACKET_BEYOND_COPY;

    if (worker->settings.copy_bytes > 0)
        status =
            packet_parse(packet->payload, packet->payload_bytes, packet->original_bytes, parsed);
    if (packet_is_malformed(status))
        stats_add(&worker->stats.malformed[status], 1);
    else if (status == PACKET_BEYOND_COPY)
        stats_add(&worker->stats.beyond_copy, 1);
    return status;
}

/// What happens with a packet.
static struct decide_outcome judge(struct worker *worker, const struct queue_packet *packet) {
    struct decide_outcome outcome = {.verdict = VERDICT_ACCEPT};
    enum packet_status status = PACKET_OK;
    struct packet parsed = {0};

    stats_add(&worker->stats.bytes, packet->original_bytes);
    if (packet->truncated)
        stats_add(&worker->stats.truncated, 1);
    // Nothing is known of it that a policy could be asked about.
    if (packet->spoiled)
        outcome.verdict = worker->gaps;
    if (packet->spoiled || worker->paper)
        return outcome;
    if (!packet->truncated)
        status = inspect(worker, packet, &parsed);
    evaluate_packet(&worker->evaluation, &worker->stats, packet, &parsed, status, &outcome);
    return outcome;
}

/// The verdict that goes to the kernel: an accept with a mark has a name of its own.
static enum verdict verdict_of(const struct decide_outcome *outcome) {
    if (outcome->verdict == VERDICT_ACCEPT && outcome->mark_set)
        return VERDICT_MARK;
    return outcome->verdict;
}

/// Sends the verdicts, which count as soon as the kernel has them. If it has no room for them now,
/// they stay in the batch.
static int send_verdicts(struct worker *worker) {
    const int result = queue_verdict(&worker->queue, &worker->batch);

    if (queue_is_transient(result)) {
        stats_add(&worker->stats.send_retries, 1);
        worker->tries++;
        queue_pause();
        return 0;
    }
    if (result < 0)
        return fail(worker, worker->queue.failed_call, result);
    worker->tries = 0;
    for (int i = 0; i < VERDICT_COUNT; i++)
        if (worker->verdicts[i] > 0)
            stats_add(&worker->stats.verdicts[i], worker->verdicts[i]);
    return 0;
}

/// Gives a packet its verdict.
static void give_verdict(struct worker *worker, const struct queue_packet *packet) {
    struct decide_outcome outcome;
    enum verdict verdict;

    if (packet->nameless) {
        verdict_batch_skip(&worker->batch);
        return;
    }
    outcome = judge(worker, packet);
    verdict = verdict_of(&outcome);
    // Can't fail: there are no more packets than runs.
    verdict_batch_add(&worker->batch, packet->id, verdict, outcome.mark);
    worker->verdicts[verdict]++;
}

/// Gives every packet its verdict.
static int give_verdicts(struct worker *worker, uint32_t packets) {
    int result;

    verdict_batch_clear(&worker->batch);
    memset(worker->verdicts, 0, sizeof worker->verdicts);
    if (evaluate_has_policy(&worker->evaluation))
        worker->evaluation.now_ns = wait_clock();
    for (uint32_t i = 0; i < packets; i++)
        give_verdict(worker, &worker->queue.packets[i]);
    verdict_batch_finish(&worker->batch);
    __atomic_store_n(&worker->last_id, worker->batch.last_id, __ATOMIC_RELAXED);
    if (worker->batch.gap_ids > 0)
        stats_add(&worker->stats.gaps, worker->batch.gap_ids);
    result = send_verdicts(worker);
    event_flush(worker->evaluation.ring);
    return result;
}

/// Whether there is more to do before the worker may stop: verdicts that the kernel has no room for
/// are tried for a while.
static bool goes_on(const struct worker *worker) {
    return !is_stopped(worker) ||
           (verdict_batch_unsent(&worker->batch) && worker->tries < QUEUE_TRIES_MAX);
}

/// One turn of a loop: nothing is received as long as verdicts are left to send, so that their
/// order holds; what then comes waits in the kernel, where the guard sees to it that it doesn't for
/// ever.
static int run_once(struct worker *worker, struct queue_received *received) {
    int result;

    *received = (struct queue_received){0};
    if (verdict_batch_unsent(&worker->batch)) {
        received->messages = worker->settings.batch; // there may be as many
        return send_verdicts(worker);
    }
    result = receive(worker, received);
    return result == 0 && received->packets > 0 ? give_verdicts(worker, received->packets) : result;
}

static int sleep_for(struct worker *worker, uint64_t duration_ns) {
    const struct timespec duration = {.tv_nsec = (long)duration_ns};
    const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);

    return error == 0 || error == EINTR ? 0 : fail(worker, "clock_nanosleep", -error);
}

static int sleep_in_poll(struct worker *worker) {
    struct pollfd sources[] = {
        {.fd = queue_fd(&worker->queue), .events = POLLIN},
        {.fd = worker->wake_fd, .events = POLLIN},
    };
    eventfd_t woken;

    if (poll(sources, sizeof sources / sizeof *sources, -1) < 0 && errno != EINTR)
        return fail(worker, "poll", -errno);
    if (sources[1].revents != 0)
        eventfd_read(worker->wake_fd, &woken); // else it would wake us for ever
    wait_woken(&worker->wait, wait_clock());
    return 0;
}

static int rest(struct worker *worker, enum wait_action action) {
    switch (action) {
    case WAIT_AGAIN:
        break;
    case WAIT_YIELD:
        sched_yield();
        break;
    case WAIT_SLEEP:
        return sleep_for(worker, worker->wait.coalesce_ns);
    case WAIT_POLL:
        return sleep_in_poll(worker);
    }
    return 0;
}

/// The loop of --profile fast. Verdicts are sent before the stop flag is looked at.
static int run_fast(struct worker *worker) {
    wait_init(&worker->wait, worker->settings.batch, worker->spin_us, worker->coalesce_us,
              wait_clock());
    while (goes_on(worker)) {
        struct queue_received received;
        int result;

        look_for_swap(worker);
        result = run_once(worker, &received);
        if (result == 0 && received.overruns == 0 && !verdict_batch_unsent(&worker->batch))
            result = rest(worker, wait_next(&worker->wait, wait_clock(), received.messages));
        if (result < 0)
            return result;
    }
    return 0;
}

/// The loop of --profile paper, which has no policy: never sleeps.
static int run_paper(struct worker *worker) {
    while (goes_on(worker)) {
        struct queue_received received;
        const int result = run_once(worker, &received);

        if (result < 0)
            return result;
    }
    return 0;
}

/// Binds the calling thread to the worker's CPU: the n-th of those that the process may use, in
/// turn.
static int pin(struct worker *worker) {
    int nth = worker->cpu;
    cpu_set_t allowed, own;

    if (worker->cpu < 0)
        return 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return fail(worker, "sched_getaffinity", -errno);
    nth %= CPU_COUNT(&allowed);
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && nth-- == 0)
            CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof own, &own) < 0)
        return fail(worker, "sched_setaffinity", -errno);
    return 0;
}

/// Whether packets that the guard answered are still in the socket: they come in the order of their
/// ids.
static bool is_behind(const struct worker *worker) {
    const uint32_t stalled_to = __atomic_load_n(&worker->stalled_to, __ATOMIC_RELAXED);

    return (int32_t)(stalled_to - __atomic_load_n(&worker->last_id, __ATOMIC_RELAXED)) > 0;
}

void worker_stalled(struct worker *worker, uint32_t packets, uint32_t id) {
    __atomic_store_n(&worker->stalled_to, id, __ATOMIC_RELAXED);
    __atomic_fetch_add(&worker->stalled, packets, __ATOMIC_RELAXED);
}

/// One reading, in the order that struct stats_reading asks for. Returns 0 or the -errno of
/// reading.
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

/// What a ledger does not explain: packets that nobody saw and, at exit, those that count twice,
/// because the kernel gave more ids while its figures were read.
static uint64_t unexplained(const struct ledger *ledger, bool running) {
    const uint64_t seen =
        stats_received(&ledger->stats) + ledger->user_drop + ledger->waiting + ledger->unseen;
    const uint64_t twice = !running && seen > ledger->offered ? seen - ledger->offered : 0;

    return ledger->difference + ledger->unseen + twice;
}

/// Gives the kernel time to finish with a packet: the CPU that it does it on may have been taken
/// away from it.
static void pause_between_readings(void) {
    const struct timespec pause = {.tv_nsec = STATS_PAUSE_NS};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/// Takes a ledger. running: the thread runs, so a batch may be in flight.
static void take_ledger(const struct worker *worker, bool running, struct ledger *ledger) {
    const struct queue_settings *settings = &worker->settings;
    const uint64_t in_flight = running ? settings->batch : 0;
    struct ledger taken = {0}, best = {.difference = UINT64_MAX};
    int result = 0;

    // The kernel gives the list of queues a page at a time: one that goes away meanwhile can hide
    // ours, so that even a missing queue is looked for again.
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

/// Receives packets that were decided while they were unread: by the verdict on a gap, which
/// decides all that came before it, or by the guard. ledger: says how many there can be. Returns
/// whether there were any.
static bool receive_decided(struct worker *worker, const struct ledger *ledger) {
    const uint32_t length = worker->settings.queue_length;
    const uint64_t decided = ledger->unseen + ledger->stalled;
    const uint64_t most = decided < length ? decided : length;
    uint64_t left = most;

    while (left > 0) {
        struct queue_received received;

        if (run_once(worker, &received) < 0 || received.messages + received.overruns == 0)
            break;
        left -= received.messages < left ? received.messages : left;
    }
    return left < most;
}

static void *run(void *argument) {
    struct worker *worker = argument;
    int result = pin(worker);

    if (result == 0)
        result = resume(worker);
    if (result == 0)
        result = worker->paper ? run_paper(worker) : run_fast(worker);
    take_ledger(worker, false, &worker->ledger);
    if (!worker->keep_open) {
        if (result == 0 && receive_decided(worker, &worker->ledger))
            take_ledger(worker, false, &worker->ledger);
        queue_close(&worker->queue);
    }
    __atomic_store_n(&worker->ended, true, __ATOMIC_RELEASE);
    if (result < 0)
        kill(getpid(), SIGTERM);
    return NULL;
}

static bool has_ended(const struct worker *worker) {
    return __atomic_load_n(&worker->ended, __ATOMIC_ACQUIRE);
}

void worker_ledger(const struct worker *worker, struct ledger *ledger) {
    if (has_ended(worker))
        *ledger = worker->ledger;
    else
        take_ledger(worker, true, ledger);
}

/// Opens the queue, or takes it over. Returns 0, or -errno with failure filled in.
static int open_queue(struct worker *worker, struct worker_handover *taken,
                      struct failure *failure) {
    int result;

    if (taken) {
        result = queue_adopt(&worker->queue, &worker->settings, &taken->handover, failure);
        taken->handover.fd = -1; // the queue's now, or closed
    } else {
        result = queue_open(&worker->queue, &worker->settings, failure);
    }
    if (result < 0)
        return result;
    worker->settings.receive_buffer = worker->queue.receive_buffer;
    worker->settings.gso = worker->queue.flags & NFQA_CFG_F_GSO;
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
    int result = 0;

    *worker = (struct worker){
        .settings = options_queue(options, requirement, number),
        .paper = options->profile == OPTIONS_PAPER,
        .spin_us = options->spin_us,
        .coalesce_us = options->coalesce_us,
        .cpu = options->pin ? (int)index : -1,
        .source = evaluate_source_make(setup->loaded),
        .wake_fd = eventfd(0, EFD_CLOEXEC),
    };
    if (!worker->source) {
        result = -ENOMEM;
        failure_set_start(failure, "calloc", ENOMEM);
    } else if (worker->wake_fd < 0) {
        result = -errno;
        failure_set_start(failure, "eventfd", -result);
    } else {
        evaluate_init(&worker->evaluation, options, worker->source, setup->reject,
                      &setup->rings[index]);
        worker->gaps = options->fail_open[OPTIONS_MALFORMED] ? VERDICT_ACCEPT : VERDICT_DROP;
        verdict_batch_begin(&worker->batch, worker->gaps);
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
    error = pthread_create(&worker->thread, NULL, run, worker);
    if (error != 0) {
        failure_set_start(failure, "pthread_create", error);
        return -error;
    }
    worker->started = true;
    return 0;
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

void worker_close(struct worker *worker) {
    queue_close(&worker->queue);
    if (worker->wake_fd >= 0)
        close(worker->wake_fd);
    worker->wake_fd = -1;
    evaluate_source_free(worker->source);
    worker->source = NULL;
}
