// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
#include "worker/event.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/counts.h"

static_assert((EVENT_RING_RECORDS & (EVENT_RING_RECORDS - 1)) == 0, "counts wrap within it");

int event_ring_make(struct event_ring *ring, uint16_t queue, struct event_bell *bell) {
    *ring = (struct event_ring){.queue = queue, .bell = bell};
    if (!bell)
        return 0;
    // Zeroed pages need no memory until an event is written to them.
    ring->records = calloc(EVENT_RING_RECORDS, sizeof *ring->records);
    return ring->records ? 0 : -ENOMEM;
}

void event_ring_free(struct event_ring *ring) {
    free(ring->records);
    ring->records = NULL;
}

static uint64_t unix_time(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void fill(struct event *event, const struct decide_input *input,
                 const struct decide_outcome *outcome) {
    const struct packet *packet = input->packet;

    event->time_ns = unix_time();
    event->status = input->status;
    event->truncated = input->truncated;
    event->hook = input->hook;
    event->has_uid = input->has_uid;
    event->has_gid = input->has_gid;
    event->has_ct_state = input->has_ct_state;
    event->has_ct_mark = input->has_ct_mark;
    event->length = input->length;
    event->mark = input->mark;
    event->iif = input->iif;
    event->oif = input->oif;
    event->uid = input->uid;
    event->gid = input->gid;
    event->ct_state = input->ct_state;
    event->ct_mark = input->ct_mark;
    event->outcome = *outcome;
    event->names = input->names ? *input->names : (struct names){0};
    event->packet = *packet;
    event->captured = packet->captured < EVENT_PACKET_BYTES ? packet->captured : EVENT_PACKET_BYTES;
    if (packet->captured > 0)
        memcpy(event->bytes, packet->bytes, event->captured);
}

void event_lose(struct event_bell *bell, uint32_t events) {
    atomic_fetch_add_explicit(&bell->lost, events, memory_order_relaxed);
    counts_add(COUNT_EVENTS_LOST, events);
}

void event_note(struct event_ring *ring, uint32_t generation, uint16_t ethertype,
                const struct decide_input *input, const struct decide_outcome *outcome) {
    const unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct event *event = &ring->records[head % EVENT_RING_RECORDS];

    ring->noted = true;
    if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == EVENT_RING_RECORDS) {
        event_lose(ring->bell, 1);
        return;
    }
    event->generation = generation;
    event->queue = ring->queue;
    event->ethertype = ethertype;
    fill(event, input, outcome);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

void event_ring_wake(struct event_ring *ring) {
    ring->noted = false;
    // This fence pairs with the fence of the consumer, which sets `asleep` and then reads the
    // rings. At least one of the two threads sees the other thread's write.
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&ring->bell->asleep, memory_order_relaxed) &&
        atomic_exchange_explicit(&ring->bell->asleep, false, memory_order_relaxed))
        eventfd_write(ring->bell->fd, 1);
}

const struct event *event_peek(const struct event_ring *ring) {
    const unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    if (!ring->records || atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
        return NULL;
    return &ring->records[tail % EVENT_RING_RECORDS];
}

void event_drop(struct event_ring *ring) {
    const unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

struct packet event_packet(const struct event *event) {
    struct packet packet = event->packet;

    packet.bytes = event->bytes;
    packet.captured = event->captured;
    return packet;
}
