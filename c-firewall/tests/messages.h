// SPDX-License-Identifier: GPL-2.0-or-later
// What the tests of the parsers share.
#ifndef MESSAGES_H
#define MESSAGES_H

#include "queue/queue.h"

typedef int messages_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// A message with a value in every attribute that is looked at: NFQA_PACKET_HDR (id 0x01020304,
/// ethertype 0x86dd, hook 2), mark 5, indev 6, outdev 7, original 256, skb_info 3, uid 1000, gid
/// 1001, ct_info 2, ct_mark 0x11223344, and a payload of 4 bytes.
extern const uint8_t messages_full[124];

/// Parses messages_full and asserts every field.
void messages_assert_full(messages_parse *parse);

/// Parses every vector of netlink.txt but one named `except` (or NULL), and asserts that each gives
/// what it expects, and that a shorter receive of it, by any number of bytes, gives the same id or
/// nothing.
void messages_assert_vectors(messages_parse *parse, const char *except);

#endif
