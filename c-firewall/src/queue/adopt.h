// SPDX-License-Identifier: GPL-2.0-or-later
// Transfer of a queue from one process to another without losing a packet.
//
// Theory of operation: to the kernel a queue's owner is the port of a netlink socket, not a
// process. Every process that has the socket may configure the queue, receive from it and answer
// every packet by its ID, including packets received by another process. Therefore the old process
// stops between two batches, when it has answered all packets that it received. From then on
// packets wait in the socket, until the new process, which has received a descriptor of the socket
// (SCM_RIGHTS), receives them.
//
// When nothing can fail any more, the new process requests its own settings of the queue (copy
// range, flags, length). It does not wait for the answers, because they come after all waiting
// packets; queue_probe has already found out which settings the kernel would refuse. Waiting
// packets were copied with the old process's settings. If these copies lack data that the new
// process needs, it sends each packet through the queue again (a verdict of NF_QUEUE to the same
// queue), up to the acknowledgement of the last request: all packets after it have the new
// settings. An old process that resumes because the new one failed does the same, because it does
// not know which settings the new one requested.
#ifndef QUEUE_ADOPT_H
#define QUEUE_ADOPT_H

#include "queue/queue.h"

/// Kernel configuration of a queue that a process hands to another.
struct queue_handover {
    int fd; // bound netlink socket
    uint32_t copy_bytes;
    uint32_t flags; // flags of the queue: NFQA_CFG_F_*
};

/// Returns true if a backend can adopt queues.
bool queue_can_adopt(enum queue_kind kind);

/// Creates a queue from a socket that another process has bound. In the kernel only the receive
/// buffer changes, which may grow, so that the other process can still resume with it.
/// - settings: of a backend that can adopt.
/// - handover: fd is owned by the queue from now on; on failure it is closed, without unbinding.
/// - Returns 0, or -errno with failure filled in and everything freed.
int queue_adopt(struct queue *queue, const struct queue_settings *settings,
                const struct queue_handover *handover, struct failure *failure);

/// Allows another process to adopt the queue. Nothing may be received from it until queue_resume;
/// it may also be released.
void queue_give(struct queue *queue);

/// Configures a queue that may come from another process; does nothing for others. Must be called
/// before the first queue_receive.
/// - batch: room for verdicts.
/// - received: out: packets that were sent through the queue again: their IDs were received, and
///   answered with VERDICT_REQUEUE. Also on failure.
/// - Returns 0, or -errno with queue->failed_call set.
int queue_resume(struct queue *queue, struct verdict_batch *batch, struct queue_received *received);

/// Frees a queue that another process has adopted: its socket stays bound and open there.
void queue_release(struct queue *queue);

#endif
