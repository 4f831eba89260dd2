// SPDX-License-Identifier: GPL-2.0-or-later
// A queue that goes from one process to another without losing a packet.
//
// Theory of operation: to the kernel a queue's owner is the port of a netlink socket, not a
// process. Whoever has the socket may configure the queue, receive from it and answer for every id,
// also for packets that came before. So the old process stops between two batches, when it has
// answered all that it took; what comes from then on waits in the socket, and the new process,
// which was given a descriptor of it (SCM_RIGHTS), goes on where the old one ended.
//
// The new process requests changed settings of the queue (copy range, flags, length) when
// nothing can fail any more, without waiting for answers, since those would stand behind all
// packets that wait: what the kernel would refuse was found out before, by queue_probe. Packets
// that wait have been copied for the old process. If that is less than the new one asks for, each
// is sent through the queue again (a verdict of NF_QUEUE to the same queue), up to the
// acknowledgement of the last request: behind it stand only packets as they were asked for. The
// same is done by an old process that goes on because the new one failed, as it can't know what
// that has asked for.
#ifndef QUEUE_ADOPT_H
#define QUEUE_ADOPT_H

#include "queue/queue.h"

/// Kernel configuration of a queue that a process hands to another.
struct queue_handover {
    int fd; // the bound netlink socket
    uint32_t copy_bytes;
    uint32_t flags; // NFQA_CFG_F_*
};

/// Whether a backend can adopt queues.
bool queue_can_adopt(enum queue_kind kind);

/// Makes a queue of a socket that another process has bound. Nothing that the kernel does changes
/// but the receive buffer, which may grow, so that the other process can still go on with it.
/// - settings: of a backend that can adopt.
/// - given: fd belongs to the queue from now on; it is closed after a failure, without unbinding.
/// - Returns 0, or -errno with failure filled in and everything freed.
int queue_adopt(struct queue *queue, const struct queue_settings *settings,
                const struct queue_handover *handover, struct failure *failure);

/// Allows another process to adopt the queue, from which nothing is received meanwhile. It can be
/// received from again after queue_resume, or released.
void queue_give(struct queue *queue);

/// To be called before the first queue_receive of a queue that may come from another process:
/// configures it, if it does.
/// - batch: room for verdicts.
/// - received: what was sent through the queue again: as many ids were received, and answered
///   with VERDICT_REQUEUE.
/// - Returns 0, or -errno with queue->failed_call set and *received as far as it went.
int queue_resume(struct queue *queue, struct verdict_batch *batch, struct queue_received *received);

/// Frees a queue that another process has adopted: the socket stays bound and open there.
void queue_release(struct queue *queue);

#endif
