// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/adopt.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "queue/classic.h"
#include "queue/mnl.h"
#include "queue/proc.h"
#include "queue/raw.h"

enum {
    // Minimum size of a waiting message in the socket's buffer, in bytes.
    ADOPT_MESSAGE_BYTES = 256,
};

bool queue_can_adopt(enum queue_kind kind) { return kind != QUEUE_CLASSIC; }

static bool is_netlink(int fd) {
    struct sockaddr_nl address = {0};
    socklen_t length = sizeof address;

    return getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
           address.nl_family == AF_NETLINK;
}

/// Makes the queue use a socket that another process has bound. Checks that the kernel's queue
/// belongs to this socket, if /proc can be read.
static int take_socket(struct queue *queue, int fd, struct failure *failure) {
    const uint16_t number = queue->settings.number;
    struct queue_figures figures;
    int result;

    if (!is_netlink(fd)) {
        failure_set(failure, LOG_EXIT_CALL,
                    "the descriptor handed over for queue %u is no netlink socket: start without "
                    "--take-over",
                    number);
        close(fd);
        return -EINVAL;
    }
    result = queue->backend->adopt(queue, fd);
    if (result < 0) {
        failure_set_start(failure, "getsockname", -result);
        close(fd);
        return result;
    }
    // ENOENT shows that the queue is not bound; if the file can't be opened, ownership is not
    // checked.
    (void)queue_proc_open();
    result = queue_proc_figures(number, &figures);
    if (result == -ENOENT || (result == 0 && figures.portid != queue->portid)) {
        failure_set(failure, LOG_EXIT_OWNED,
                    "the socket that was handed over for queue %u does not own it: "
                    "start without --take-over",
                    number);
        return -EPERM;
    }
    return 0;
}

/// Enlarges the receive buffer to the size in the settings. A larger buffer stays unchanged,
/// because a smaller buffer could not hold the waiting packets.
static int grow_buffer(struct queue *queue, struct failure *failure) {
    const int result = queue_socket_set_buffer(&queue->socket, 0, &queue->receive_buffer);

    if (result < 0) {
        failure_set_start(failure, "getsockopt(SO_RCVBUF)", -result);
        return result;
    }
    return queue->receive_buffer < queue->settings.receive_buffer ? queue_set_buffer(queue, failure)
                                                                  : 0;
}

/// Returns the settings of a queue with receive slots that are also large enough for the packets
/// that already wait. (These were copied with the other process's settings. The kernel copies less
/// than 64 KiB of a packet.)
static struct queue_settings widen(const struct queue_settings *settings,
                                   const struct queue_handover *handover) {
    const uint32_t payload = handover->copy_bytes < UINT16_MAX ? handover->copy_bytes : UINT16_MAX;
    const uint32_t conntrack =
        (handover->flags & NFQA_CFG_F_CONNTRACK) != 0 ? QUEUE_CONNTRACK_BYTES : 0;
    const uint64_t slot_bytes = queue_socket_slot_bytes(payload + conntrack);
    struct queue_settings wide = *settings;

    if (wide.slot_bytes < slot_bytes)
        wide.slot_bytes = slot_bytes;
    return wide;
}

/// Returns true if waiting packets, which were copied with the other process's settings, lack data
/// that the settings request.
static bool is_less(const struct queue_handover *handover, uint32_t copy_bytes, uint32_t flags) {
    const uint32_t more = flags & ~handover->flags & (NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_UID_GID);

    return handover->copy_bytes < copy_bytes || more != 0;
}

int queue_adopt(struct queue *queue, const struct queue_settings *settings,
                const struct queue_handover *handover, struct failure *failure) {
    const struct queue_settings wide = widen(settings, handover);
    uint32_t flags;
    int result = queue_prepare(queue, &wide, failure);

    if (result == 0)
        result = queue_probe(settings, &flags, failure);
    if (result < 0)
        close(handover->fd);
    else
        result = take_socket(queue, handover->fd, failure);
    if (result == 0)
        result = grow_buffer(queue, failure);
    if (result < 0) {
        queue_close(queue);
        return result;
    }
    queue->flags = flags;
    queue->handed = true;
    queue->refresh = is_less(handover, settings->copy_bytes, flags);
    return 0;
}

void queue_give(struct queue *queue) {
    queue->handed = true;
    queue->refresh = true;
}

/// Sends a configuration request without waiting for the answer. It does not use
/// libnetfilter_queue, whose functions would wait.
/// - acknowledged: true if the kernel must acknowledge the executed request; it always reports a
///   failure.
static int send_request(const struct queue *queue, enum queue_request request, bool acknowledged) {
    uint8_t buffer[QUEUE_REQUEST_BYTES];

    return queue_raw_send_whole(
        queue, buffer,
        queue_raw_build_request(&queue->settings, queue->flags, request, acknowledged, buffer));
}

/// Requests flags and copy mode without waiting for the answers. Requests an acknowledgement of the
/// copy mode if waiting packets must be sent through the queue again.
static int configure(struct queue *queue) {
    const int result = send_request(queue, QUEUE_FLAGS, false);

    return result < 0 ? result : send_request(queue, QUEUE_MODE, queue->refresh);
}

/// Sends the packets of the last receive call through the queue again (a verdict of NF_QUEUE).
/// Packets without a readable ID get the verdict for malformed packets.
static int send_once_more(struct queue *queue, struct verdict_batch *batch,
                          const struct queue_received *received) {
    int result;

    verdict_batch_clear(batch);
    // Can't fail: the batch has room for a run per packet.
    for (uint32_t i = 0; i < received->packets; i++)
        if (queue->packets[i].nameless)
            verdict_batch_skip(batch);
        else
            verdict_batch_add(batch, queue->packets[i].id, VERDICT_REQUEUE, queue->settings.number);
    verdict_batch_finish(batch);
    result = queue_verdict(queue, batch);
    for (int tries = 1; queue_is_transient(result) && tries < QUEUE_TRIES_MAX; tries++) {
        queue_pause();
        result = queue_verdict(queue, batch);
    }
    return result;
}

/// Calls queue_receive once, sends the received packets through the queue again, and adds the
/// counts to `received`.
/// - Returns 1 if another call is needed, 0 if the acknowledgement of the copy mode was received or
///   the socket was empty, or -errno with queue->failed_call set.
static int requeue(struct queue *queue, struct verdict_batch *batch,
                   struct queue_received *received) {
    struct queue_received got;
    int result = queue_receive(queue, &got);

    if (result < 0)
        return result;
    received->malformed += got.malformed;
    received->nameless += got.nameless;
    received->refused += got.refused;
    received->overruns += got.overruns;
    result = send_once_more(queue, batch, &got);
    if (result < 0)
        return result;
    received->messages += got.messages;
    received->packets += got.packets;
    received->ids += got.ids;
    if (got.messages == 0)
        return got.overruns > 0;
    return got.ignored == 0;
}

/// Sends all waiting packets through the queue again. Ends at the acknowledgement of the copy mode,
/// or when the socket is empty. If the buffer was full, the acknowledgement may be lost: then the
/// function ends at the latest after the maximum number of messages that the buffer can hold.
static int refresh(struct queue *queue, struct verdict_batch *batch,
                   struct queue_received *received) {
    const uint64_t buffer_bytes = UINT64_C(2) * queue->receive_buffer;
    int result = 1;

    while (result > 0 && (uint64_t)received->messages * ADOPT_MESSAGE_BYTES < buffer_bytes)
        result = requeue(queue, batch, received);
    return result < 0 ? result : 0;
}

int queue_resume(struct queue *queue, struct verdict_batch *batch,
                 struct queue_received *received) {
    int result;

    *received = (struct queue_received){0};
    if (!queue->handed)
        return 0;
    queue->handed = false;
    verdict_batch_forget(batch);
    queue->failed_call = "sendto";
    result = configure(queue);
    if (result == 0 && queue->refresh)
        result = refresh(queue, batch, received);
    // The length must come last: a shorter queue would refuse the packets that are sent again.
    if (result == 0)
        result = send_request(queue, QUEUE_LENGTH, false);
    return result;
}

void queue_confirm(struct queue *queue) { queue->bound = true; }

void queue_release(struct queue *queue) {
    queue->bound = false;
    queue_close(queue);
}
