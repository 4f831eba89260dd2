// SPDX-License-Identifier: GPL-2.0-or-later
// Backend `mnl`: libmnl and the message API of libnetfilter_queue. Sends all verdicts of a batch by
// one mnl_socket_sendto, if they fit into one datagram.
#ifndef QUEUE_MNL_H
#define QUEUE_MNL_H

#include <stddef.h>
#include <stdint.h>

#include "queue/types.h"

extern const struct queue_backend queue_mnl;

/// Parses one message by nfq_nlmsg_parse, after the checks of queue_frame and
/// queue_check_attributes. Has no side effects.
/// - bytes: received bytes, 4-byte aligned.
/// - packet: out: filled in for QUEUE_PARSED_PACKET, otherwise unspecified.
/// - Returns a value of enum queue_parsed.
int queue_mnl_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet);

/// Writes the verdict messages of some runs, one per run, for the queue with a number.
/// - buffer: out: 4-byte aligned, QUEUE_VERDICT_BYTES per run.
/// - Returns the number of bytes written.
size_t queue_mnl_build_verdicts(uint16_t number, const struct verdict_run *runs, size_t count,
                                uint8_t *buffer);

#endif
