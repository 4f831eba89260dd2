// SPDX-License-Identifier: GPL-2.0-or-later
// Queue of the kernel: open, receive, answer, close. Three backends implement it (queue_classic,
// queue_mnl, queue_raw).
//
// Theory of operation: queue_open sends requests in this order: BIND, the queue's length, the
// flags, and the copy mode. After BIND it sets the receive buffer. The kernel queues packets from
// the copy mode on. Therefore only the acknowledgement of the copy mode can arrive after packets. A
// packet before this acknowledgement proves that the kernel has executed the request. The packet
// stays in the arena for the first queue_receive, which ignores the late acknowledgement.
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/verdict.h"
#include "queue/types.h"

/// Creates a closed queue with all its buffers.
/// - Returns 0, or -ENOMEM with failure filled in and everything freed.
int queue_prepare(struct queue *queue, const struct queue_settings *settings,
                  struct failure *failure);

/// Checks that this process may configure queues. Uses a new socket that owns no queue.
/// - flags: out: flags (NFQA_CFG_F_*) that the settings request and the kernel supports.
/// - Returns 0, or -errno with failure filled in, as queue_open does.
int queue_probe(const struct queue_settings *settings, uint32_t *flags, struct failure *failure);

/// Sets the receive buffer to the size in the settings. If the kernel gives a smaller buffer, fails
/// if settings.receive_buffer_required is set, and otherwise logs a warning.
/// - Returns 0, or -errno with failure filled in.
int queue_set_buffer(struct queue *queue, struct failure *failure);

/// Opens and configures a queue; packets then arrive.
/// - Returns 0, or -errno with failure filled in and everything closed.
int queue_open(struct queue *queue, const struct queue_settings *settings, struct failure *failure);

/// Receives at most settings.batch messages without blocking. The packets stay in queue->packets
/// until the next call.
/// - Returns 0, or -errno with queue->failed_call set, *received untouched.
int queue_receive(struct queue *queue, struct queue_received *received);

/// Sends the unsent runs of the batch in order. Uses one system call per datagram. With the classic
/// backend a datagram usually has one run.
/// - Returns 0; or -errno with queue->failed_call and batch->sent set. After a transient error
///   (queue_is_transient) the caller may call it again after queue_pause.
int queue_verdict(struct queue *queue, struct verdict_batch *batch);

/// Sleeps for QUEUE_PAUSE_NS.
void queue_pause(void);

/// Returns true if sending may succeed later after this error.
bool queue_is_transient(int result);

/// Returns the file descriptor to poll for reading.
int queue_fd(const struct queue *queue);

/// Closes the queue and frees its buffers. Unbinds it first if queue->bound is set; then the kernel
/// drops waiting packets.
void queue_close(struct queue *queue);

#endif
