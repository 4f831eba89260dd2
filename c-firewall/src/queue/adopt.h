// SPDX-License-Identifier: GPL-2.0-or-later
// Transfer of a queue from one process to another without losing a packet.
//
// Theory of operation: for the kernel, the owner of a queue is the port of a netlink socket, not a
// process. Every process that has the socket may configure the queue, receive from it and answer
// every packet by its ID, including packets that another process received. The old process stops
// between two batches, when it has answered all packets that it received. From then on packets wait
// in the socket. The new process gets a descriptor of the socket (SCM_RIGHTS) and receives them.
//
// After the last step that can fail, the new process requests its own settings of the queue (copy
// range, flags, length). It does not wait for the answers, because they come after all waiting
// packets. queue_probe has checked before which settings the kernel would refuse. Waiting packets
// were copied with the old process's settings. If these copies lack data that the new process
// needs, it sends each packet through the queue again (a verdict of NF_QUEUE to the same queue), up
// to the acknowledgement of the copy range: all packets after it have the new settings. An old
// process that resumes because the new one failed does the same, because it does not know which
// settings the new one requested.
#ifndef QUEUE_ADOPT_H
#define QUEUE_ADOPT_H

#include "queue/queue.h"

/// Kernel configuration of a queue that is handed to another process.
struct queue_handover {
    int fd; // bound netlink socket
    uint32_t copy_bytes;
    uint32_t flags; // flags of the queue: NFQA_CFG_F_*
};

/// Returns true if a backend can adopt a queue from another process.
bool queue_can_adopt(enum queue_kind kind);

/// Creates a queue from a socket that another process has bound. Changes nothing in the kernel
/// except that the receive buffer may grow, so that the other process can still resume.
/// - settings: settings with a backend that can adopt queues.
/// - handover: configuration by the other process, with which waiting packets were copied. The
///   queue owns its fd from now on. On failure fd is closed; the queue stays bound in the kernel.
/// - Returns 0, or -errno with failure filled in and everything freed.
int queue_adopt(struct queue *queue, const struct queue_settings *settings,
                const struct queue_handover *handover, struct failure *failure);

/// Prepares the queue for its adoption by another process. Then the caller must not receive from
/// the queue until queue_resume. If the adoption succeeds, the caller may call queue_release
/// instead.
void queue_give(struct queue *queue);

/// Requests this process's settings of a queue after a hand-over: flags, copy mode, length. The
/// other process may have changed them. Sends waiting packets through the queue again
/// (VERDICT_REQUEUE) if their copies may lack data. Does nothing for a queue without a hand-over.
/// Must be called before the first queue_receive.
/// - batch: buffer for verdicts; its last ID becomes unknown.
/// - received: out: counts of the packets sent again, also on failure.
/// - Returns 0, or -errno with queue->failed_call set.
int queue_resume(struct queue *queue, struct verdict_batch *batch, struct queue_received *received);

/// Makes queue_close unbind an adopted queue. Before this call queue_close leaves the queue bound,
/// because the process that handed it over may resume.
void queue_confirm(struct queue *queue);

/// Frees this process's copy of a queue that another process has adopted. In that process the
/// queue's socket stays bound and open.
void queue_release(struct queue *queue);

#endif
