// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/stats.h"

#include <assert.h>
#include <stddef.h>

static_assert(sizeof(struct stats) % STATS_ALIGN == 0, "no other data shares the last cache line");
static_assert((offsetof(struct stats, elements) + sizeof((struct stats){0}.elements)) ==
                  STATS_WORDS * sizeof(uint64_t),
              "the counters come one after the other");
static_assert(offsetof(struct stats, received) < offsetof(struct stats, verdicts),
              "received is read before verdicts");

// The lists of spec/counters.toml must have the lengths of the enums by which they are indexed.
#define HAS_LENGTH(list, length)                                                                   \
    static_assert(sizeof((struct stats){0}.list) == (length) * sizeof(uint64_t), #list)
HAS_LENGTH(verdicts, VERDICT_COUNT);
HAS_LENGTH(malformed, PACKET_STATUS_COUNT);
HAS_LENGTH(replies, REJECT_RESULT_COUNT);
HAS_LENGTH(connections, NAMED_RESULT_COUNT);
HAS_LENGTH(answers, TEACH_RESULT_COUNT);
HAS_LENGTH(elements, ELEMENTS_RESULT_COUNT);

uint64_t stats_get(const uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_RELAXED); }

uint64_t stats_received(const struct stats *live) {
    return stats_get(&live->received) + stats_get(&live->without_id);
}

uint64_t stats_decided(const struct stats *live) {
    uint64_t sum = 0;

    for (int i = 0; i < VERDICT_COUNT; i++)
        sum += stats_get(&live->verdicts[i]);
    return sum;
}

void stats_snapshot(const struct stats *live, struct stats *snapshot) {
    const uint64_t *from = (const uint64_t *)live;
    uint64_t *to = (uint64_t *)snapshot;

    for (size_t i = 0; i < STATS_WORDS; i++)
        to[i] = stats_get(&from[i]);
}

/// Returns how far a 32-bit counter is ahead of the lower 32 bits of `near`. A negative result
/// means that the counter is behind, by at most STATS_BEHIND_MAX. Every other difference counts as
/// positive, because fail-open may leave most of 2^32 packets unseen.
static int64_t ahead_of(uint32_t count, uint64_t near) {
    return (int64_t)(uint32_t)(count - (uint32_t)near + STATS_BEHIND_MAX) - STATS_BEHIND_MAX;
}

static uint64_t sum_verdicts(const struct stats *stats) {
    uint64_t sum = 0;

    for (int i = 0; i < VERDICT_COUNT; i++)
        sum += stats->verdicts[i];
    return sum;
}

/// Returns the number of packets that were received and not answered, or answered and not received.
/// - in_flight: number of received packets that may still be without a verdict. If it is not 0, the
///   worker runs, and packets that were answered and not received don't count.
static uint64_t difference_of_verdicts(const struct stats *stats, uint64_t in_flight) {
    const uint64_t verdicts = sum_verdicts(stats);

    if (stats->received > verdicts + in_flight)
        return stats->received - verdicts - in_flight;
    // A running worker may have answered more packets since received was read. A worker that has
    // ended can't have done so.
    return verdicts > stats->received && in_flight == 0 ? verdicts - stats->received : 0;
}

/// Fills in the fields of the ledger that depend on the kernel's counters.
static void add_figures(const struct stats_reading *reading, bool fail_open,
                        struct ledger *ledger) {
    const struct queue_figures *kernel = &reading->figures;
    const uint64_t received = stats_received(&reading->after);
    const uint32_t meant =
        kernel->offered - kernel->user_drop; // packets sent to the socket, or passed by fail-open
    const int64_t ahead = ahead_of(meant, received);
    const int64_t ahead_before = ahead_of(meant, reading->received_before);
    const uint64_t known = received + kernel->user_drop;
    const uint64_t missed =
        ahead > (int64_t)kernel->waiting ? (uint64_t)ahead - kernel->waiting : 0;
    // A kernel whose packet table is full (hash insert failed, Linux 6.18.x) drops packets that
    // already have an id. It counts them as queue_full, like packets that it drops without an id.
    // Therefore the two kinds can't be distinguished.
    const uint64_t excused =
        kernel->queue_full + (reading->unreceived ? reading->stalled : UINT64_C(0));

    // A count that is lower by more than all known packets is a defect, not a wrap. It is shown
    // unchanged.
    ledger->offered =
        ahead < 0 && (uint64_t)-ahead > known ? kernel->offered : known + (uint64_t)ahead;
    ledger->waiting = kernel->waiting;
    ledger->queue_full = kernel->queue_full;
    ledger->user_drop = kernel->user_drop;
    ledger->unseen = missed > excused ? missed - excused : 0;
    ledger->lost = (uint64_t)kernel->queue_full + kernel->user_drop;
    if (!fail_open)
        ledger->difference += ledger->unseen;
    if (ahead_before < 0)
        ledger->difference += (uint64_t)-ahead_before;
}

void ledger_make(const struct stats_reading *reading, uint16_t number, uint64_t in_flight,
                 bool fail_open, struct ledger *ledger) {
    *ledger = (struct ledger){
        .number = number,
        .stats = reading->after,
        .known = reading->known,
        .stalled = reading->stalled,
        .difference = difference_of_verdicts(&reading->after, in_flight),
    };
    if (reading->known)
        add_figures(reading, fail_open, ledger);
    ledger->reconciled = ledger->known && ledger->difference == 0;
}

void ledger_add(struct ledger *sum, const struct ledger *ledger) {
    const uint64_t *from = (const uint64_t *)&ledger->stats;
    uint64_t *to = (uint64_t *)&sum->stats;

    for (size_t i = 0; i < STATS_WORDS; i++)
        to[i] += from[i];
    sum->known = sum->known && ledger->known;
    sum->offered += ledger->offered;
    sum->waiting += ledger->waiting;
    sum->queue_full += ledger->queue_full;
    sum->user_drop += ledger->user_drop;
    sum->unseen += ledger->unseen;
    sum->stalled += ledger->stalled;
    sum->lost += ledger->lost;
    sum->difference += ledger->difference;
    sum->reconciled = sum->reconciled && ledger->reconciled;
}
