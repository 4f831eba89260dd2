// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a netlink message's length and type, made before any library parses the message.
#ifndef QUEUE_FRAME_H
#define QUEUE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

/// Checks a message's length and type.
/// - bytes: received bytes of one message (nfnetlink_queue sends one per datagram).
/// - packet: out: truncated is cleared. If the message is longer than the received bytes, packet is
///   filled in as by queue_truncated.
/// - Returns QUEUE_PARSED_PACKET for a packet message. Unless packet->truncated is set, the message
///   is then complete: its attributes may be parsed up to nlmsg_len. Otherwise returns another
///   value of enum queue_parsed.
int queue_frame(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Parses ID, ethertype and hook in a packet message that MSG_TRUNC marks as truncated.
/// - Returns QUEUE_PARSED_PACKET with packet filled in (truncated set, no payload), or
///   QUEUE_PARSED_MALFORMED if they can't be read.
int queue_truncated(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Receives the kernel's acknowledgement of the last request, for backends without a function that
/// does so. Packets that arrive before it stay in the arena.
/// - Returns 0, the -errno of the answer, or -ETIMEDOUT.
int queue_await_ack(struct queue *queue);

/// Returns true if a message reports that no packet had an ID of a gap, so that the gap's verdict
/// had no effect.
bool queue_is_vacant(const uint8_t *bytes, size_t received);

/// Returns true if the header of a message, which must have QUEUE_MESSAGE_BYTES or more, has the
/// type of packet messages.
bool queue_tells_of_packet(const uint8_t *bytes);

#endif
