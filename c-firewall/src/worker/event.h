// SPDX-License-Identifier: GPL-2.0-or-later
// Events, and the ring buffer that transfers them to the event thread. An event is a copy of a
// packet, its metadata and its verdict; the worker that decided makes it.
//
// Theory of operation: a ring has one producer (a worker) and one consumer at a time: the event
// thread, or in a reload the main thread. The producer never waits: if the ring is full, the event
// is counted as lost (COUNT_EVENTS_LOST). It makes no system call between receiving and answering
// packets. event_flush is called after the verdicts are sent; it wakes the consumer if the consumer
// sleeps. A packet whose event is not wanted costs only a relaxed load.
#ifndef WORKER_EVENT_H
#define WORKER_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/decide.h"
#include "packet/packet.h"
#include "worker/stats.h"

enum {
    // Maximum number of a packet's bytes in an event. Most packets fit completely, with the names
    // in them.
    EVENT_PACKET_BYTES = 2048,
    EVENT_RING_RECORDS = 2048, // capacity of a ring, in events; a power of two
};

/// Classes of packets for which a consumer can want events, as bits: one bit for each verdict, and
/// the bits EVENT_LOGGED and EVENT_ANOMALY.
enum event_class {
    EVENT_ACCEPT = 1 << VERDICT_ACCEPT,
    EVENT_DROP = 1 << VERDICT_DROP,
    EVENT_REJECT = 1 << VERDICT_REJECT,
    EVENT_LOGGED = 1 << VERDICT_COUNT, // packets for which a log statement was executed
    // Packets that are malformed, truncated or undecidable.
    EVENT_ANOMALY = 1 << (VERDICT_COUNT + 1),
};

/// Event: a packet's metadata, names and verdict, copied from decide_input and decide_outcome.
struct event {
    uint64_t time_ns;    // UNIX time of the event, in nanoseconds
    uint32_t generation; // generation of the policy that decided; 0 means none
    uint16_t queue;
    uint16_t ethertype; // etherType of the packet, in host byte order
    enum packet_status status;
    bool truncated;
    uint8_t hook;
    bool has_uid;
    bool has_gid;
    bool has_ct_state;
    bool has_ct_mark;
    uint32_t length;
    uint32_t mark; // mark of the packet before the policy changed it
    uint32_t iif;
    uint32_t oif;
    uint32_t uid;
    uint32_t gid;
    uint32_t ct_state;
    uint32_t ct_mark;
    struct decide_outcome outcome;
    struct names names;   // names that the client of the packet's connection has sent
    struct packet packet; // parsed headers without the packet's bytes; event_packet returns both
    uint32_t captured;    // number of valid bytes in bytes
    uint8_t bytes[EVENT_PACKET_BYTES];
};

/// Wake-up of an event consumer. All rings that the consumer reads share it.
struct event_bell {
    atomic_bool asleep; // true if the consumer sleeps, or is about to
    int fd;             // eventfd that wakes the consumer
    // Number of events that found their ring full, and of executed log statements without a line: a
    // packet passed more than DECIDE_LOGS_MAX of them, or the event's policy is unknown.
    atomic_uint_fast64_t lost;
};

/// Ring of events with one producer and one consumer.
struct event_ring {
    // Fields of the producer. Classes of packets for which the consumer wants events (enum
    // event_class); the producer only reads it.
    _Alignas(STATS_ALIGN) atomic_uint wanted;
    bool noted; // true if an event was stored or lost since the last event_flush
    uint16_t queue;
    struct event *records; // EVENT_RING_RECORDS events; NULL = no event is ever wanted
    struct event_bell *bell;
    atomic_uint head; // number of events ever stored, modulo 2^32
    // Fields of the consumer.
    _Alignas(STATS_ALIGN) atomic_uint tail; // number of events ever removed, modulo 2^32
};

/// Returns the bits of the classes that a packet belongs to.
static inline unsigned event_classes(enum packet_status status, bool truncated,
                                     const struct decide_outcome *outcome) {
    return 1U << outcome->verdict | (outcome->log_count > 0 ? EVENT_LOGGED : 0U) |
           (truncated || outcome->undecidable || packet_is_malformed(status) ? EVENT_ANOMALY : 0U);
}

/// Returns true if the consumer wants an event for the packet.
static inline bool event_wanted(const struct event_ring *ring, enum packet_status status,
                                bool truncated, const struct decide_outcome *outcome) {
    const unsigned wanted = atomic_load_explicit(&ring->wanted, memory_order_relaxed);

    return wanted != 0 && (wanted & event_classes(status, truncated, outcome)) != 0;
}

/// Creates a ring for a queue's worker.
/// - bell: wake-up of the consumer; it must outlive the ring. NULL = no event is ever wanted.
/// - Returns 0 or -ENOMEM.
int event_ring_make(struct event_ring *ring, uint16_t queue, struct event_bell *bell);
void event_ring_free(struct event_ring *ring);

/// Stores an event for a packet, or counts it as lost if the ring is full.
/// - generation: generation of the policy that decided; 0 means none.
void event_note(struct event_ring *ring, uint32_t generation, uint16_t ethertype,
                const struct decide_input *input, const struct decide_outcome *outcome);

/// Adds lost events to the consumer's counter and to the process's counter.
void event_lose(struct event_bell *bell, uint32_t events);

/// Wakes the consumer if it sleeps. Only event_flush calls it.
void event_ring_wake(struct event_ring *ring);

/// Wakes the consumer if it sleeps, and events were stored or lost since the last call. Must be
/// called after the packets' verdicts are sent.
static inline void event_flush(struct event_ring *ring) {
    if (ring->noted)
        event_ring_wake(ring);
}

/// Returns the oldest event, which stays in the ring until event_drop; NULL if there is none.
const struct event *event_peek(const struct event_ring *ring);

/// Removes the oldest event.
void event_drop(struct event_ring *ring);

/// Returns the parsed packet of an event, with its bytes, which are valid as long as the event.
struct packet event_packet(const struct event *event);

#endif
