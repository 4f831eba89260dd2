// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/pending.h"

#include <linux/netfilter/nfnetlink_queue.h>

#include "connection/checksum.h"
#include "connection/follow.h"

enum connection_checksum pending_state(uint32_t skb_info) {
    if (skb_info & NFQA_SKB_CSUMNOTREADY)
        return CONNECTION_CHECKSUM_NOT_READY;
    if (skb_info & NFQA_SKB_CSUM_NOTVERIFIED)
        return CONNECTION_CHECKSUM_UNVERIFIED;
    return CONNECTION_CHECKSUM_VERIFIED;
}

bool pending_restated(const struct connections *connections, const struct followed *followed,
                      const struct queue_packet *packet, const struct packet *parsed,
                      struct verdict_restated *restated) {
    const uint32_t is_pending = packet->skb_info & (NFQA_SKB_CSUMNOTREADY | NFQA_SKB_GSO);
    const bool is_whole = packet->payload_bytes == packet->original_bytes;

    *restated = (struct verdict_restated){.bytes = packet->payload_bytes};
    return is_pending == NFQA_SKB_CSUMNOTREADY && is_whole &&
           connection_decides(connections, followed, parsed) &&
           checksum_correct(parsed, &restated->place, &restated->checksum);
}
