// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/restate.h"

#include <assert.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>

#include "queue/raw.h"

static_assert(QUEUE_VERDICT_BYTES + (NLA_HDRLEN + QUEUE_RESTATED_PAYLOAD_MAX + 1) ==
                  QUEUE_RESTATED_BYTES,
              "verdict, NFQA_PAYLOAD, padding");
static_assert(NLA_HDRLEN + QUEUE_RESTATED_PAYLOAD_MAX + 1 >
                  VERDICT_RESTATED_TOGETHER * (1 + (NLA_HDRLEN + NLA_ALIGNTO)),
              "room in queue.verdicts for packets of at least one byte that share a datagram");

size_t queue_restate_build(uint16_t number, const struct verdict_run *run, const uint8_t *payload,
                           uint32_t payload_bytes, uint8_t *buffer) {
    const struct verdict_restated *restated = &run->restated;
    uint8_t *at, *end;

    if (!run->is_restated || payload_bytes > QUEUE_RESTATED_PAYLOAD_MAX || payload_bytes < 2 ||
        restated->place > payload_bytes - 2)
        return 0;
    at = buffer + queue_raw_build_verdicts(number, run, 1, buffer);
    end = queue_raw_put_attribute(at, NFQA_PAYLOAD, payload, (uint16_t)payload_bytes);
    queue_raw_end_message(buffer, end);
    at += NLA_HDRLEN + restated->place;
    at[0] = (uint8_t)(restated->checksum >> 8);
    at[1] = (uint8_t)restated->checksum;
    return (size_t)(end - buffer);
}

bool queue_restate_is_among(const struct verdict_run *runs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (runs[i].is_restated)
            return true;
    return false;
}

/// Writes the verdict message of a run, with its packet if the kernel gets it back. Returns the
/// number of bytes written; 0 if queue_restate_build fails, or the packet's length is not that in
/// the run.
static size_t build_run(const struct queue *queue, const struct verdict_run *run, uint8_t *buffer) {
    const struct queue_packet *packet = &queue->packets[run->restated.index];

    if (!run->is_restated)
        return queue_raw_build_verdicts(queue->settings.number, run, 1, buffer);
    if (packet->payload_bytes != run->restated.bytes)
        return 0;
    return queue_restate_build(queue->settings.number, run, packet->payload, packet->payload_bytes,
                               buffer);
}

int queue_restate_verdict(struct queue *queue, const struct verdict_run *runs, size_t count) {
    size_t length = 0;
    int result;

    for (size_t i = 0; i < count; i++) {
        const size_t bytes = build_run(queue, &runs[i], queue->verdicts + length);

        if (bytes == 0)
            return -EMSGSIZE;
        length += bytes;
    }
    result = queue_raw_send_whole(queue, queue->verdicts, length);
    return result < 0 ? result : (int)count;
}
