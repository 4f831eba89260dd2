// SPDX-License-Identifier: GPL-2.0-or-later
// Verdict that gives a packet back to the kernel, with a correct checksum. The kernel replaces the
// packet's bytes (nfqnl_mangle), and forgets the checksum that it was to write itself, at an offset
// that the packet's sender has chosen.
#ifndef QUEUE_RESTATE_H
#define QUEUE_RESTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

/// Writes the verdict message that gives a packet back to the kernel, with the correct checksum.
/// - number: number of the queue.
/// - run: verdict of the packet, and its correct checksum.
/// - payload: the packet's bytes as received.
/// - buffer: out: QUEUE_RESTATED_BYTES.
/// - Returns the number of bytes written; 0 if the run gives no packet back, the packet is too
///   long, or its checksum is not within it.
size_t queue_restate_build(uint16_t number, const struct verdict_run *run, const uint8_t *payload,
                           uint32_t payload_bytes, uint8_t *buffer);

/// Returns true if one of these runs gives its packet back to the kernel, with a correct checksum.
bool queue_restate_is_among(const struct verdict_run *runs, size_t count);

/// Sends the verdicts of runs in one datagram, with the packets that the kernel gets back; also for
/// backends whose library can't build such messages. The packets must be those of the last receive
/// call.
/// - runs: as many as verdict_batch_rest returns.
/// - Returns the number of runs that were sent, or -errno: -EMSGSIZE if a packet's message can't be
///   built, or the datagram is too long.
int queue_restate_verdict(struct queue *queue, const struct verdict_run *runs, size_t count);

#endif
