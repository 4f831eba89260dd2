// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of the two parsers of netlink messages. The results of the raw parser and of the parser
// with libmnl must be equal. Neither may read past the received bytes: the input lies in a block of
// exactly its size.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "queue/frame.h"
#include "queue/mnl.h"
#include "queue/raw.h"

static void must(int condition) {
    if (!condition)
        abort();
}

static void must_be_equal(const struct queue_packet *raw, const struct queue_packet *mnl) {
    must(raw->id == mnl->id);
    must(raw->ethertype == mnl->ethertype);
    must(raw->hook == mnl->hook);
    must(raw->truncated == mnl->truncated);
    must(raw->mark == mnl->mark);
    must(raw->indev == mnl->indev);
    must(raw->outdev == mnl->outdev);
    must(raw->uid == mnl->uid);
    must(raw->gid == mnl->gid);
    must(raw->ct_info == mnl->ct_info);
    must(raw->has_ct_mark == mnl->has_ct_mark);
    must(raw->ct_mark == mnl->ct_mark);
    must(raw->skb_info == mnl->skb_info);
    must(raw->payload == mnl->payload);
    must(raw->payload_bytes == mnl->payload_bytes);
    must(raw->original_bytes == mnl->original_bytes);
}

/// Checks that the payload lies completely within the received bytes.
static void must_be_within(const struct queue_packet *packet, const uint8_t *bytes,
                           size_t received) {
    if (!packet->payload)
        return;
    must(packet->payload >= bytes && packet->payload <= bytes + received);
    must(packet->payload_bytes <= (size_t)(bytes + received - packet->payload));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = malloc(size ? size : 1);
    struct queue_packet raw, mnl;
    int raw_parsed, mnl_parsed;

    memcpy(bytes, data, size);
    raw_parsed = queue_raw_parse(bytes, size, &raw);
    mnl_parsed = queue_mnl_parse(bytes, size, &mnl);
    must(raw_parsed == mnl_parsed);
    if (raw_parsed == QUEUE_PARSED_PACKET) {
        must_be_equal(&raw, &mnl);
        must_be_within(&raw, bytes, size);
    }
    free(bytes);
    return 0;
}
