// SPDX-License-Identifier: GPL-2.0-or-later
// Backend that speaks netlink itself. All verdicts of a batch go out in one sendto.
#ifndef QUEUE_RAW_H
#define QUEUE_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

extern const struct queue_backend queue_raw;

/// Parses one message in one walk over its attributes. Pure; agrees with queue_mnl_parse on
/// every input.
/// - bytes: received bytes long, in any alignment.
/// - Returns as enum queue_parsed says; packet is filled in for QUEUE_PARSED_PACKET, else
///   unspecified.
int queue_raw_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Writes the verdict messages of some runs for a queue.
/// - buffer: QUEUE_VERDICT_BYTES a run.
/// - Returns the number of bytes written; they are the same that queue_mnl_build_verdicts
///   writes.
size_t queue_raw_build_verdicts(uint16_t number, const struct verdict_run *runs, size_t count,
                                uint8_t *buffer);

/// Sends runs in one message, for backends that have no way of their own.
/// - runs: as many as queue->verdicts has room for.
/// - Returns how many, or -errno.
int queue_raw_verdict(struct queue *queue, const struct verdict_run *runs, size_t count);

/// Writes a configuration request.
/// - flags: NFQA_CFG_F_* for QUEUE_FLAGS.
/// - acknowledged: the kernel is to tell what came of it, also if it was taken.
/// - buffer: QUEUE_REQUEST_BYTES.
/// - Returns the number of bytes written.
size_t queue_raw_build_request(const struct queue_settings *settings, uint32_t flags,
                               enum queue_request request, bool acknowledged, uint8_t *buffer);

/// Sends to the kernel by the queue's socket, which takes a datagram whole or not at all.
/// - Returns 0 or -errno.
int queue_raw_send_whole(const struct queue *queue, const uint8_t *bytes, size_t length);

#endif
