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

int queue_restate_verdict(struct queue *queue, const struct verdict_run *run) {
    const struct queue_packet *packet = &queue->packets[run->restated.index];
    const size_t length = queue_restate_build(queue->settings.number, run, packet->payload,
                                              packet->payload_bytes, queue->restated);
    int result;

    if (length == 0)
        return -EMSGSIZE;
    result = queue_raw_send_whole(queue, queue->restated, length);
    return result < 0 ? result : 1;
}
