// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a message's frame, made before any library parses the message.
#ifndef QUEUE_FRAME_H
#define QUEUE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

/// Checks a message's frame.
/// - bytes: received bytes of one message (nfnetlink_queue sends one per datagram).
/// - packet: truncated is cleared; if the message is longer than the received bytes, it is filled
///   in as by queue_truncated.
/// - Returns QUEUE_PARSED_PACKET for a packet message: unless packet->truncated is set, the message
///   is complete, and its attributes may be parsed within nlmsg_len. Otherwise returns another
///   value of enum queue_parsed.
int queue_frame(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Parses the ID in a packet message that MSG_TRUNC marks as truncated.
/// - Returns QUEUE_PARSED_PACKET with packet filled in (truncated set, no payload), or
///   QUEUE_PARSED_MALFORMED.
int queue_truncated(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Receives until the last request is acknowledged, for backends without a function that does so.
/// - Returns 0, the -errno of the answer, or -ETIMEDOUT.
int queue_await_ack(struct queue *queue);

/// Returns true if a message reports that a gap was empty: the gap's verdict found no packet.
bool queue_is_vacant(const uint8_t *bytes, size_t received);

/// Returns true if a message of QUEUE_MESSAGE_BYTES or more describes a packet, by its header.
bool queue_tells_of_packet(const uint8_t *bytes);

#endif
