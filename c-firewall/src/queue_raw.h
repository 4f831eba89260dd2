// SPDX-License-Identifier: GPL-2.0-or-later
// Backend that speaks netlink itself. All verdicts of a batch go out in one sendto.
#ifndef QUEUE_RAW_H
#define QUEUE_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "queue.h"

extern const struct queue_backend queue_raw;

/// Parses one message in one walk over its attributes. Pure; agrees with queue_mnl_parse on
/// every input.
/// - bytes: received bytes long, in any alignment.
/// - Returns as enum queue_parsed says; packet is filled in for QUEUE_PARSED_PACKET, else
///   unspecified.
int queue_raw_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Writes the verdict messages of a batch for a queue.
/// - buffer: QUEUE_VERDICT_BYTES a run.
/// - Returns the number of bytes written; they are the same that queue_mnl_build_verdicts
///   writes.
size_t queue_raw_build_verdicts(uint16_t number, const struct verdict_batch *batch,
                                uint8_t *buffer);

/// Writes a configuration request.
/// - buffer: QUEUE_REQUEST_BYTES.
/// - flags: NFQA_CFG_F_* for QUEUE_FLAGS.
/// - Returns the number of bytes written.
size_t queue_raw_build_request(const struct queue_settings *settings, uint32_t flags,
                               enum queue_request request, uint8_t *buffer);

#endif
