// SPDX-License-Identifier: GPL-2.0-or-later
// Helpers that the tests of the backends' parsers share.
#ifndef MESSAGES_H
#define MESSAGES_H

#include "queue/queue.h"

typedef int messages_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Packet message with a value in every attribute that the parsers read: NFQA_PACKET_HDR (id
/// 0x01020304, ethertype 0x86dd, hook 2), mark 5, indev 6, outdev 7, original 256, skb_info 3, uid
/// 1000, gid 1001, ct_info 2, ct_mark 0x11223344, and a payload of 4 bytes.
extern const uint8_t messages_full[124];

/// Parses messages_full and asserts every field.
void messages_assert_full(messages_parse *parse);

/// Parses every vector of netlink.txt. Asserts that each vector gives the result that it expects,
/// and that a message with any number of missing bytes gives the same id or no packet.
/// - except: name of a vector whose result may differ, or NULL.
void messages_assert_vectors(messages_parse *parse, const char *except);

#endif
