// SPDX-License-Identifier: GPL-2.0-or-later
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "vectors.h"

enum { VECTORS_LEAST = 50 };

// clang-format off
const uint8_t messages_full[124] = {
    124, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
    10, 0, 0, 0,                                    // nfgenmsg
    11, 0, 1, 0, 1, 2, 3, 4, 0x86, 0xdd, 2, 0,      // NFQA_PACKET_HDR
    8, 0, 3, 0, 0, 0, 0, 5,                         // NFQA_MARK
    8, 0, 5, 0, 0, 0, 0, 6,                         // NFQA_IFINDEX_INDEV
    8, 0, 6, 0, 0, 0, 0, 7,                         // NFQA_IFINDEX_OUTDEV
    8, 0, 13, 0, 0, 0, 1, 0,                        // NFQA_CAP_LEN
    8, 0, 14, 0, 0, 0, 0, 3,                        // NFQA_SKB_INFO
    8, 0, 16, 0, 0, 0, 3, 0xe8,                     // NFQA_UID
    8, 0, 17, 0, 0, 0, 3, 0xe9,                     // NFQA_GID
    8, 0, 12, 0, 0, 0, 0, 2,                        // NFQA_CT_INFO
    20, 0, 11, 0x80,                                // NFQA_CT
    8, 0, 3, 0, 0, 0, 0, 1,                         //   CTA_STATUS
    8, 0, 8, 0, 0x11, 0x22, 0x33, 0x44,             //   CTA_MARK
    8, 0, 10, 0, 0x60, 1, 2, 3,                     // NFQA_PAYLOAD
};
// clang-format on

void messages_assert_full(messages_parse *parse) {
    static const uint8_t payload[] = {0x60, 1, 2, 3};
    struct queue_packet packet;

    assert_int_equal(parse(messages_full, sizeof messages_full, &packet), QUEUE_PARSED_PACKET);
    assert_int_equal(packet.id, 0x01020304);
    assert_int_equal(packet.ethertype, 0x86dd);
    assert_int_equal(packet.hook, 2);
    assert_false(packet.truncated);
    assert_int_equal(packet.mark, 5);
    assert_int_equal(packet.indev, 6);
    assert_int_equal(packet.outdev, 7);
    assert_int_equal(packet.uid, 1000);
    assert_int_equal(packet.gid, 1001);
    assert_int_equal(packet.skb_info, 3);
    assert_int_equal(packet.ct_info, 2);
    assert_true(packet.has_ct_mark);
    assert_int_equal(packet.ct_mark, 0x11223344);
    assert_int_equal(packet.payload_bytes, 4);
    assert_memory_equal(packet.payload, payload, sizeof payload);
    assert_int_equal(packet.original_bytes, 256);
}

/// Parses the first bytes of a message, copied to a block of exactly their size, so that the
/// sanitizer detects a read after them.
static int parse_first(messages_parse *parse, const uint8_t *bytes, size_t received,
                       struct queue_packet *packet) {
    uint8_t *block = malloc(received ? received : 1);
    int parsed;

    memcpy(block, bytes, received);
    parsed = parse(block, received, packet);
    free(block);
    packet->payload = NULL;
    return parsed;
}

/// Returns a number as text; "-" if it is missing.
static const char *describe_known(bool known, uint32_t value, char text[static 16]) {
    if (!known)
        return "-";
    snprintf(text, 16, "%u", value);
    return text;
}

/// Writes a parser's result in the format of the vectors' line "expect".
static void describe(int parsed, const struct queue_packet *packet,
                     char text[static VECTOR_EXPECT_BYTES]) {
    char uid[16], gid[16], ct_info[16], ct_mark[16];

    if (parsed == QUEUE_PARSED_IGNORED)
        snprintf(text, VECTOR_EXPECT_BYTES, "result=ignored");
    else if (parsed == QUEUE_PARSED_MALFORMED)
        snprintf(text, VECTOR_EXPECT_BYTES, "result=malformed");
    else if (parsed < 0)
        snprintf(text, VECTOR_EXPECT_BYTES, "result=refused errno=%u", 0U - (unsigned int)parsed);
    else
        snprintf(text, VECTOR_EXPECT_BYTES,
                 "result=packet id=%u ethertype=0x%04x hook=%u mark=%u indev=%u outdev=%u "
                 "uid=%s gid=%s ct_info=%s ct_mark=%s payload=%u original=%u truncated=%d",
                 packet->id, packet->ethertype, packet->hook, packet->mark, packet->indev,
                 packet->outdev, describe_known(packet->uid != QUEUE_UNKNOWN, packet->uid, uid),
                 describe_known(packet->gid != QUEUE_UNKNOWN, packet->gid, gid),
                 describe_known(packet->ct_info != QUEUE_UNKNOWN, packet->ct_info, ct_info),
                 describe_known(packet->has_ct_mark, packet->ct_mark, ct_mark),
                 packet->payload_bytes, packet->original_bytes, packet->truncated);
}

/// Returns the number of shorter lengths at which a message is parsed as a packet with a different
/// id.
static int count_wrong_cuts(messages_parse *parse, const struct vector *vector) {
    struct queue_packet whole, packet;
    const int parsed = parse_first(parse, vector->bytes, vector->received, &whole);
    int wrong = 0;

    for (size_t received = 0; received < vector->received; received++)
        if (parse_first(parse, vector->bytes, received, &packet) == QUEUE_PARSED_PACKET &&
            parsed == QUEUE_PARSED_PACKET && packet.id != whole.id)
            wrong++;
    return wrong;
}

void messages_assert_vectors(messages_parse *parse, const char *except) {
    FILE *file = vectors_open("netlink.txt");
    struct vector vector = {0};
    int vectors = 0, wrong = 0;

    for (; vectors_next(file, &vector); vectors++) {
        struct queue_packet packet;
        char got[VECTOR_EXPECT_BYTES];

        describe(parse_first(parse, vector.bytes, vector.received, &packet), &packet, got);
        wrong += count_wrong_cuts(parse, &vector);
        if (strcmp(got, vector.expect) == 0 || (except && strcmp(vector.name, except) == 0))
            continue;
        print_error("%s\n  expected %s\n  got      %s\n", vector.name, vector.expect, got);
        wrong++;
    }
    free(vector.bytes);
    fclose(file);
    assert_int_equal(wrong, 0);
    assert_true(vectors >= VECTORS_LEAST);
}
