// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll clock_nanosleep sched_yield sched_getaffinity sched_setaffinity kill read
#include "worker/run.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "connection/lifetime.h"
#include "packet/packet.h"
#include "worker/reading.h"

static bool is_stopped(const struct worker *worker) {
    return __atomic_load_n(&worker->stop, __ATOMIC_ACQUIRE);
}

/// Forgets all connections if the policy reads no names. Then no packets are followed, so another
/// connection may use the same ports before a later policy reads names.
static void forget_unfollowed(struct evaluation *evaluation) {
    if (evaluation->connections && !evaluation->source->requirement.names)
        lifetime_abandon_all(evaluation->connections, wait_clock());
}

/// Switches to the new policy, if a swap was requested. Called between two batches, so that a
/// single policy decides each packet.
static void look_for_swap(struct worker *worker) {
    if (!__atomic_load_n(&worker->swap, __ATOMIC_ACQUIRE))
        return;
    worker->evaluation.source = worker->next;
    forget_unfollowed(&worker->evaluation);
    __atomic_store_n(&worker->swap, false, __ATOMIC_RELEASE);
}

/// Fills in a page of connections, if a listing was requested. Called between two batches.
static void look_for_listing(struct worker *worker) {
    if (!__atomic_load_n(&worker->lists, __ATOMIC_ACQUIRE))
        return;
    evaluate_list(&worker->evaluation, wait_clock(), &worker->page);
    __atomic_store_n(&worker->lists, false, __ATOMIC_RELEASE);
}

/// Clears the request for a sign of life (`asked`), which shows that the loop runs.
static void show_turn(struct worker *worker) {
    if (__atomic_load_n(&worker->asked, __ATOMIC_ACQUIRE))
        __atomic_store_n(&worker->asked, false, __ATOMIC_RELEASE);
}

/// Stores the failed call that ends the loop. Returns error, which is -errno.
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

/// Receives packets, and counts all messages by kind.
static int receive(struct worker *worker, struct queue_received *received) {
    const int result = queue_receive(&worker->queue, received);

    if (result < 0)
        return fail(worker, worker->queue.failed_call, result);
    count_received(worker, received);
    return 0;
}

/// Configures a queue that another process may have configured before. Sends waiting packets
/// through the queue again if they may lack data that the settings request. Does nothing for other
/// queues.
static int resume(struct worker *worker) {
    struct queue_received received = {0};
    const int result = queue_resume(&worker->queue, &worker->batch, &received);

    count_received(worker, &received);
    stats_add(&worker->stats.verdicts[VERDICT_REQUEUE], received.ids);
    return result < 0 ? fail(worker, worker->queue.failed_call, result) : 0;
}

/// Parses a packet. Counts it if it is malformed, or if a header is beyond the copied bytes. With
/// --copy-bytes 0 it parses nothing, because no header was copied.
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

/// Decides a packet. Returns the outcome, with its verdict and mark.
static struct decide_outcome judge(struct worker *worker, const struct queue_packet *packet) {
    struct decide_outcome outcome = {.verdict = VERDICT_ACCEPT};
    enum packet_status status = PACKET_OK;
    struct packet parsed = {0};

    stats_add(&worker->stats.bytes, packet->original_bytes);
    if (packet->truncated)
        stats_add(&worker->stats.truncated, 1);
    // A spoiled (malformed) message has no fields that a policy could read.
    if (packet->spoiled)
        outcome.verdict = worker->gaps;
    if (packet->spoiled || worker->paper)
        return outcome;
    if (!packet->truncated)
        status = inspect(worker, packet, &parsed);
    evaluate_packet(&worker->evaluation, &worker->stats, packet, &parsed, status, &outcome);
    return outcome;
}

/// Returns the verdict for the kernel: an accept with a mark becomes VERDICT_MARK.
static enum verdict verdict_of(const struct decide_outcome *outcome) {
    if (outcome->verdict == VERDICT_ACCEPT && outcome->mark_set)
        return VERDICT_MARK;
    return outcome->verdict;
}

/// Sends the batch of verdicts, and counts the verdicts after the kernel has accepted all. If the
/// kernel has no room, the unsent verdicts stay in the batch; that is no failure.
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

/// Decides a packet and adds its verdict to the batch. A packet without a readable ID becomes part
/// of a gap instead.
/// - index: index of the packet in the queue's packets.
static void give_verdict(struct worker *worker, const struct queue_packet *packet, uint32_t index) {
    struct decide_outcome outcome;
    enum verdict verdict;

    if (packet->nameless) {
        verdict_batch_skip(&worker->batch);
        return;
    }
    worker->evaluation.is_restated = false;
    outcome = judge(worker, packet);
    verdict = verdict_of(&outcome);
    // It can't fail: the batch has room for a run per packet.
    if (worker->evaluation.is_restated) {
        worker->evaluation.restated.index = index;
        stats_add(&worker->stats.restated, 1);
        verdict_batch_restate(&worker->batch, packet->id, verdict, outcome.mark,
                              &worker->evaluation.restated);
    } else {
        verdict_batch_add(&worker->batch, packet->id, verdict, outcome.mark);
    }
    worker->verdicts[verdict]++;
}

/// Decides the received packets and sends their verdicts as one batch.
static int give_verdicts(struct worker *worker, uint32_t packets) {
    uint32_t followed;
    int result;

    verdict_batch_clear(&worker->batch);
    memset(worker->verdicts, 0, sizeof worker->verdicts);
    if (evaluate_has_policy(&worker->evaluation))
        worker->evaluation.now_ns = wait_clock();
    for (uint32_t i = 0; i < packets; i++)
        give_verdict(worker, &worker->queue.packets[i], i);
    verdict_batch_finish(&worker->batch);
    followed = evaluate_count_connections(&worker->evaluation, &worker->stats);
    __atomic_store_n(&worker->followed, followed, __ATOMIC_RELAXED);
    __atomic_store_n(&worker->last_id, worker->batch.last_id, __ATOMIC_RELAXED);
    if (worker->batch.gap_ids > 0)
        stats_add(&worker->stats.gaps, worker->batch.gap_ids);
    result = send_verdicts(worker);
    event_flush(worker->evaluation.ring);
    return result;
}

/// Returns true if the loop must continue: it was not stopped, or it has unsent verdicts and has
/// tried to send them fewer than QUEUE_TRIES_MAX times.
static bool goes_on(const struct worker *worker) {
    return !is_stopped(worker) ||
           (verdict_batch_unsent(&worker->batch) && worker->tries < QUEUE_TRIES_MAX);
}

/// Runs one turn of the loop: sends the unsent verdicts of the last turn, or, if there are none,
/// receives a batch of packets and answers it. To preserve the order of verdicts, it receives
/// nothing while verdicts are unsent. Packets then wait in the kernel; the guard limits this time
/// (--deadline).
static int run_once(struct worker *worker, struct queue_received *received) {
    int result;

    *received = (struct queue_received){0};
    if (verdict_batch_unsent(&worker->batch)) {
        received->messages = worker->settings.batch; // upper bound: nothing was received
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
        // Reset, so that the eventfd does not wake the thread again.
        eventfd_read(worker->wake_fd, &woken);
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

/// Runs the loop of --profile fast. It sends a batch's verdicts before it checks the stop flag.
static int run_fast(struct worker *worker) {
    wait_init(&worker->wait, worker->settings.batch, worker->spin_us, worker->coalesce_us,
              wait_clock());
    while (goes_on(worker)) {
        struct queue_received received;
        int result;

        look_for_swap(worker);
        look_for_listing(worker);
        show_turn(worker);
        result = run_once(worker, &received);
        if (result == 0 && received.overruns == 0 && !verdict_batch_unsent(&worker->batch))
            result = rest(worker, wait_next(&worker->wait, wait_clock(), received.messages));
        if (result < 0)
            return result;
    }
    return 0;
}

/// Runs the loop of --profile paper, which has no policy, and does not sleep while the socket is
/// empty.
static int run_paper(struct worker *worker) {
    while (goes_on(worker)) {
        struct queue_received received;
        int result;

        show_turn(worker);
        result = run_once(worker, &received);
        if (result < 0)
            return result;
    }
    return 0;
}

/// Binds the calling thread to one of the allowed CPUs, with --pin. The CPU's index among them is
/// the worker's index modulo their number.
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

/// Receives packets that were answered before the worker received them: by the guard, or by a gap's
/// batch verdict, which applies to all waiting packets up to its ID. Returns true if it received
/// packets.
/// - ledger: unseen, stalled and queue_full together are the maximum number of packets that were
///   answered before. (A full queue may hide unseen packets.) The kernel's messages about refused
///   verdicts arrive among these packets.
static bool receive_decided(struct worker *worker, const struct ledger *ledger) {
    const uint64_t most = ledger->unseen + ledger->stalled + ledger->queue_full;
    uint64_t left = most;

    while (left > 0 && worker->tries < QUEUE_TRIES_MAX) {
        struct queue_received received;

        if (run_once(worker, &received) < 0) {
            worker->error = 0; // the loop had ended without an error
            break;
        }
        if (received.messages + received.overruns == 0)
            break;
        left -= received.packets < left ? received.packets : left;
    }
    return left < most;
}

void *worker_run(void *argument) {
    struct worker *worker = argument;
    int result = pin(worker);

    if (result == 0)
        result = resume(worker);
    if (result == 0)
        result = worker->paper ? run_paper(worker) : run_fast(worker);
    worker_reading_ledger(worker, false, &worker->ledger);
    if (__atomic_load_n(&worker->confirmed, __ATOMIC_RELAXED))
        queue_confirm(&worker->queue);
    if (!worker->keep_open) {
        if (result == 0 && receive_decided(worker, &worker->ledger))
            worker_reading_ledger(worker, false, &worker->ledger);
        queue_close(&worker->queue);
    }
    __atomic_store_n(&worker->ended, true, __ATOMIC_RELEASE);
    if (result < 0)
        kill(getpid(), SIGTERM);
    return NULL;
}
