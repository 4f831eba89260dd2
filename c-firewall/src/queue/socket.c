// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: recvmmsg recvfrom
#include "queue/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

uint64_t queue_socket_slot_bytes(uint32_t copy_bytes) {
    const uint64_t needed = (uint64_t)copy_bytes + QUEUE_OVERHEAD_BYTES;

    return (needed + QUEUE_SOCKET_SLOT_ALIGN - 1) / QUEUE_SOCKET_SLOT_ALIGN *
           QUEUE_SOCKET_SLOT_ALIGN;
}

/// Creates the headers for recvmmsg; each header points to its slot. Returns 0 or -ENOMEM.
static int make_headers(struct queue_socket *socket) {
    socket->headers = calloc(socket->batch, sizeof *socket->headers);
    socket->vectors = calloc(socket->batch, sizeof *socket->vectors);
    if (!socket->headers || !socket->vectors)
        return -ENOMEM;
    for (uint32_t i = 0; i < socket->batch; i++) {
        socket->vectors[i].iov_base = socket->arena + i * socket->slot_bytes;
        socket->vectors[i].iov_len = socket->slot_bytes;
        socket->headers[i].msg_hdr.msg_iov = &socket->vectors[i];
        socket->headers[i].msg_hdr.msg_iovlen = 1;
    }
    return 0;
}

int queue_socket_init(struct queue_socket *socket, uint32_t batch, uint64_t slot_bytes) {
    struct queue_socket made = {.fd = -1, .batch = batch, .slot_bytes = slot_bytes};

    made.arena = calloc(batch, slot_bytes);
    if (!made.arena)
        goto cleanup;
    if (batch > 1 && make_headers(&made) < 0)
        goto cleanup;
    *socket = made;
    return 0;

cleanup:
    queue_socket_free(&made);
    return -ENOMEM;
}

void queue_socket_free(struct queue_socket *socket) {
    free(socket->arena);
    free(socket->headers);
    free(socket->vectors);
    socket->arena = NULL;
    socket->headers = NULL;
    socket->vectors = NULL;
}

int queue_socket_bound_wait(const struct queue_socket *socket) {
    const struct timeval bound = {.tv_sec = QUEUE_SOCKET_ACK_SECONDS};

    if (setsockopt(socket->fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound) < 0)
        return -errno;
    return 0;
}

int queue_socket_set_buffer(const struct queue_socket *socket, uint32_t wanted_bytes,
                            uint32_t *granted_bytes) {
    const int wanted = (int)wanted_bytes;
    int doubled;
    socklen_t length = sizeof doubled;

    if (wanted > 0 &&
        setsockopt(socket->fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) < 0 &&
        setsockopt(socket->fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) < 0)
        return -errno;
    if (getsockopt(socket->fd, SOL_SOCKET, SO_RCVBUF, &doubled, &length) < 0)
        return -errno;
    *granted_bytes = (uint32_t)doubled / 2;
    return 0;
}

static int receive_single(struct queue_socket *socket, bool blocking) {
    const ssize_t received =
        recv(socket->fd, socket->arena, socket->slot_bytes, blocking ? 0 : MSG_DONTWAIT);

    if (received < 0)
        return -errno;
    socket->single_received = (size_t)received;
    return 1;
}

static int receive_many(struct queue_socket *socket, bool blocking) {
    const int count = recvmmsg(socket->fd, socket->headers, socket->batch,
                               blocking ? MSG_WAITFORONE : MSG_DONTWAIT, NULL);

    return count < 0 ? -errno : count;
}

int queue_socket_receive(struct queue_socket *socket, bool blocking) {
    int count;

    do
        count = socket->headers ? receive_many(socket, blocking) : receive_single(socket, blocking);
    while (count == -EINTR);
    return count == -EAGAIN ? 0 : count;
}

void queue_socket_keep(struct queue_socket *socket, const uint8_t *bytes, size_t length) {
    const size_t kept = length < socket->slot_bytes ? length : socket->slot_bytes;

    memcpy(socket->arena, bytes, kept);
    if (!socket->headers) {
        socket->single_received = kept;
        return;
    }
    socket->headers[0].msg_len = (unsigned int)kept;
    socket->headers[0].msg_hdr.msg_flags = 0;
}

struct queue_message queue_socket_message(const struct queue_socket *socket, uint32_t index) {
    if (!socket->headers)
        return (struct queue_message){
            .bytes = socket->arena,
            .received = socket->single_received,
        };
    return (struct queue_message){
        .bytes = socket->arena + index * socket->slot_bytes,
        .received = socket->headers[index].msg_len,
        .truncated = socket->headers[index].msg_hdr.msg_flags & MSG_TRUNC,
    };
}

const char *queue_socket_receive_call(const struct queue_socket *socket) {
    return socket->headers ? "recvmmsg" : "recv";
}
