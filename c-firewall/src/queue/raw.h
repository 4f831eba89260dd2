// SPDX-License-Identifier: GPL-2.0-or-later
// Backend `raw`: writes and parses netlink messages without a library. Sends all verdicts of a
// batch by one sendto, if they fit into one datagram.
#ifndef QUEUE_RAW_H
#define QUEUE_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

extern const struct queue_backend queue_raw;

/// Parses one message in one pass over its attributes. Has no side effects, and the same result as
/// queue_mnl_parse for every aligned input.
/// - bytes: received bytes, in any alignment.
/// - packet: out: filled in for QUEUE_PARSED_PACKET, otherwise unspecified.
/// - Returns a value of enum queue_parsed.
int queue_raw_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Writes the verdict messages of some runs, one per run, for the queue with a number.
/// - buffer: out: QUEUE_VERDICT_BYTES per run.
/// - Returns the number of bytes written. The bytes are equal to those of queue_mnl_build_verdicts.
size_t queue_raw_build_verdicts(uint16_t number, const struct verdict_run *runs, size_t count,
                                uint8_t *buffer);

/// Sends the verdicts of runs in one datagram. The backend `classic` calls it for a gap, because
/// its library can't set a message's sequence number.
/// - runs: at most as many as queue->verdicts has room for.
/// - Returns the number of runs that were sent, or -errno.
int queue_raw_verdict(struct queue *queue, const struct verdict_run *runs, size_t count);

/// Sets the length in the header of a message.
/// - end: position after the message.
void queue_raw_end_message(uint8_t *begin, const uint8_t *end);

/// Writes an attribute with its padding. Returns the position after them.
/// - value_bytes: at most 65,531.
uint8_t *queue_raw_put_attribute(uint8_t *at, uint16_t type, const void *value,
                                 uint16_t value_bytes);

/// Writes a configuration request.
/// - flags: NFQA_CFG_F_* for QUEUE_FLAGS.
/// - acknowledged: true if the kernel must acknowledge the executed request; it always reports a
///   failure.
/// - buffer: out: QUEUE_REQUEST_BYTES.
/// - Returns the number of bytes written.
size_t queue_raw_build_request(const struct queue_settings *settings, uint32_t flags,
                               enum queue_request request, bool acknowledged, uint8_t *buffer);

/// Sends a datagram to the kernel over the queue's socket. The kernel accepts the whole datagram or
/// nothing.
/// - Returns 0 or -errno.
int queue_raw_send_whole(const struct queue *queue, const uint8_t *bytes, size_t length);

#endif
