// SPDX-License-Identifier: GPL-2.0-or-later
// The queue as the rest of the program sees it: open, receive, answer, close. Three backends do the
// same in three ways behind it (queue_classic, queue_mnl, queue_raw).
//
// Theory of operation: queue_open sends, in this order, BIND, (the receive buffer is set here,) the
// queue's length, the flags, and last the copy mode. Packets flow from the copy mode on, so only
// its acknowledgement can be met among packets; a packet that comes first proves that the request
// was taken, and stays in the arena for the first queue_receive. The late acknowledgement is then
// ignored as any other.
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/verdict.h"
#include "queue/types.h"

/// Makes a closed queue with all its buffers.
/// - Returns 0, or -ENOMEM with failure filled in and everything freed.
int queue_prepare(struct queue *queue, const struct queue_settings *settings,
                  struct failure *failure);

/// Asks the kernel, by a socket that owns no queue, whether we may configure queues, and which of
/// the flags it has that the settings ask for.
/// - Returns 0 with flags filled in, or -errno with failure filled in, as queue_open does.
int queue_probe(const struct queue_settings *settings, uint32_t *flags, struct failure *failure);

/// Asks for the receive buffer, and tells if it is not what it should be.
/// - Returns 0, or -errno with failure filled in.
int queue_set_buffer(struct queue *queue, struct failure *failure);

/// Opens and configures a queue, so that packets flow.
/// - Returns 0, or -errno with failure filled in and everything closed.
int queue_open(struct queue *queue, const struct queue_settings *settings, struct failure *failure);

/// Receives what is there, at most settings.batch messages, without blocking. The packets stand
/// in queue->packets until the next call.
/// - Returns 0, or -errno with queue->failed_call set, *received untouched.
int queue_receive(struct queue *queue, struct queue_received *received);

/// Sends the runs of the batch that are left to send, in order: in one system call, or one a run
/// with the classic backend.
/// - Returns 0; or -errno with queue->failed_call set and batch->sent as far as it went. If the
///   kernel has no room for now (queue_is_transient) it may be called again after queue_pause.
int queue_verdict(struct queue *queue, struct verdict_batch *batch);

/// Sleeps for QUEUE_PAUSE_NS.
void queue_pause(void);

/// Whether a failure to send passes by itself.
bool queue_is_transient(int result);

/// The file descriptor to poll for reading.
int queue_fd(const struct queue *queue);

/// Releases the queue: unbinds (the kernel drops waiting packets) and closes.
void queue_close(struct queue *queue);

#endif
