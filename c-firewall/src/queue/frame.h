// SPDX-License-Identifier: GPL-2.0-or-later
// What a message's frame must be like, before any library sees the message.
#ifndef QUEUE_FRAME_H
#define QUEUE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

/// Checks a message's frame, before anything of it is parsed.
/// - bytes: received bytes of one message as it came from the socket (nfnetlink_queue sends one
///   a datagram).
/// - packet: truncated is cleared, or all filled in as queue_truncated does if the message is
///   longer than what was received.
/// - Returns QUEUE_PARSED_PACKET for a packet message: if packet->truncated is not set, it lies
///   wholly in the bytes, and its attributes may be parsed within nlmsg_len. Otherwise what
///   enum queue_parsed says.
int queue_frame(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Parses the id in a packet message that is truncated, as MSG_TRUNC tells.
/// - Returns QUEUE_PARSED_PACKET with packet filled in (truncated set, no payload), or
///   QUEUE_PARSED_MALFORMED.
int queue_truncated(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// For backends that wait for acknowledgements themselves: receives until the last request is
/// answered.
/// - Returns 0, the -errno of the answer, or -ETIMEDOUT.
int queue_await_ack(struct queue *queue);

/// Whether a message says that a gap was empty: its verdict found nothing.
bool queue_is_vacant(const uint8_t *bytes, size_t received);

/// Whether a message of QUEUE_MESSAGE_BYTES or more says that it tells of a packet.
bool queue_tells_of_packet(const uint8_t *bytes);

#endif
