// SPDX-License-Identifier: GPL-2.0-or-later
// An event: what is known of one packet and its verdict, copied by the worker that decided, and the
// ring that takes it to the thread of events.
//
// Theory of operation: a ring has one producer, its worker, and one consumer. The producer never
// waits: what does not fit is counted (COUNT_EVENTS_LOST). It makes no system call between
// receiving and answering; event_flush, behind the answers, wakes the consumer, and only if it
// sleeps. When nobody wants events of a packet, a relaxed load is all that is done.
#ifndef WORKER_EVENT_H
#define WORKER_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/decide.h"
#include "packet/packet.h"
#include "worker/stats.h"

enum {
    EVENT_PACKET_BYTES = 2048, // of a packet that are kept: all of most, with the names in it
    EVENT_RING_RECORDS = 2048, // a power of two
};

/// Packets for which a consumer wants events, as bits: those of the verdicts, and two above them.
enum event_class {
    EVENT_ACCEPT = 1 << VERDICT_ACCEPT,
    EVENT_DROP = 1 << VERDICT_DROP,
    EVENT_REJECT = 1 << VERDICT_REJECT,
    EVENT_LOGGED = 1 << VERDICT_COUNT,        // passed a log statement
    EVENT_ANOMALY = 1 << (VERDICT_COUNT + 1), // malformed, truncated, or undecidable
};

/// Facts of a packet, as decide_input and decide_outcome tell it.
struct event {
    uint64_t time_ns; // UNIX time
    uint32_t generation;
    uint16_t queue;
    uint16_t ethertype; // host order
    enum packet_status status;
    bool truncated;
    uint8_t hook;
    bool has_uid;
    bool has_gid;
    bool has_ct_state;
    bool has_ct_mark;
    uint32_t length;
    uint32_t mark; // as the policy saw it
    uint32_t iif;
    uint32_t oif;
    uint32_t uid;
    uint32_t gid;
    uint32_t ct_state;
    uint32_t ct_mark;
    struct decide_outcome outcome;
    struct names names;   // what the packet's client has shown
    struct packet packet; // its bytes: event_packet
    uint32_t captured;    // of bytes
    uint8_t bytes[EVENT_PACKET_BYTES];
};

/// State shared by all rings of a consumer.
struct event_bell {
    atomic_bool asleep;        // the consumer is, or is about to
    int fd;                    // an eventfd, which wakes it
    atomic_uint_fast64_t lost; // records that found no room
};

struct event_ring {
    // The producer's.
    _Alignas(STATS_ALIGN) atomic_uint wanted; // enum event_class; written by the consumer
    bool noted;                               // since the last event_flush
    uint16_t queue;
    struct event *records; // EVENT_RING_RECORDS of them; NULL = nothing is ever wanted
    struct event_bell *bell;
    atomic_uint head; // counts records that were put in
    // The consumer's.
    _Alignas(STATS_ALIGN) atomic_uint tail; // counts records that were taken out
};

/// The classes of a packet.
static inline unsigned event_classes(enum packet_status status, bool truncated,
                                     const struct decide_outcome *outcome) {
    return 1U << outcome->verdict | (outcome->log_count > 0 ? EVENT_LOGGED : 0U) |
           (truncated || outcome->undecidable || packet_is_malformed(status) ? EVENT_ANOMALY : 0U);
}

/// Whether a consumer wants an event of the packet.
static inline bool event_wanted(const struct event_ring *ring, enum packet_status status,
                                bool truncated, const struct decide_outcome *outcome) {
    const unsigned wanted = atomic_load_explicit(&ring->wanted, memory_order_relaxed);

    return wanted != 0 && (wanted & event_classes(status, truncated, outcome)) != 0;
}

/// Makes a ring. bell: lives longer; NULL = nothing is ever wanted.
/// - Returns 0 or -ENOMEM.
int event_ring_make(struct event_ring *ring, uint16_t queue, struct event_bell *bell);
void event_ring_free(struct event_ring *ring);

/// Notes a packet, or counts that there was no room.
/// - generation: of the policy that decided; 0 = none.
void event_note(struct event_ring *ring, uint32_t generation, uint16_t ethertype,
                const struct decide_input *input, const struct decide_outcome *outcome);

/// Counts events that are lost.
void event_lose(struct event_bell *bell, uint32_t events);

/// Rings the bell, for event_flush.
void event_ring_wake(struct event_ring *ring);

/// Wakes the consumer for the noted events. To be called after the packets' verdicts.
static inline void event_flush(struct event_ring *ring) {
    if (ring->noted)
        event_ring_wake(ring);
}

/// The oldest record, which stays until event_drop; NULL if there is none.
const struct event *event_peek(const struct event_ring *ring);

/// Takes the oldest record out.
void event_drop(struct event_ring *ring);

/// The packet with its bytes, which live as long as the event.
struct packet event_packet(const struct event *event);

#endif
