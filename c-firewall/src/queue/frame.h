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

/// Parses ID, ethertype and hook at the start of a truncated or malformed packet message.
/// - Returns QUEUE_PARSED_PACKET with packet filled in (truncated set, no payload), or
///   QUEUE_PARSED_MALFORMED if they can't be read.
int queue_truncated(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Waits for the kernel's answer to the last request, for backends without a function that does so.
/// Makes one receive call: packets or an overrun (ENOBUFS) before the acknowledgement prove the
/// request's execution, too. Packets stay in the arena.
/// - Returns 0, the -errno of a refusal or of receiving, or -ETIMEDOUT.
int queue_await_ack(struct queue *queue);

/// Returns true if a message is the kernel's error ENOENT for the verdict of a gap: no waiting
/// packet had an ID of the gap.
bool queue_is_vacant(const uint8_t *bytes, size_t received);

/// Returns true if the header of a message, which must have QUEUE_MESSAGE_BYTES or more, has the
/// type of packet messages.
bool queue_tells_of_packet(const uint8_t *bytes);

#endif
