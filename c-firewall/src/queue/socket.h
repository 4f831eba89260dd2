// SPDX-License-Identifier: GPL-2.0-or-later
// What the three backends share on the netlink file descriptor: the receive arena, receiving, the
// buffer.
#ifndef QUEUE_SOCKET_H
#define QUEUE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    QUEUE_OVERHEAD_BYTES = 512,   // room in a slot for all attributes but the payload and NFQA_CT
    QUEUE_SOCKET_SLOT_ALIGN = 64, // bytes: a slot begins on a cache line
    QUEUE_SOCKET_ACK_SECONDS =
        1, // how long the answer to a configuration request may take (SO_RCVTIMEO)
};

/// A message in the arena. Borrowed until the next receive call.
struct queue_message {
    const uint8_t *bytes;
    size_t received; // bytes of it in the arena
    bool truncated;  // MSG_TRUNC: it had more
};

struct queue_socket {
    int fd;         // of the backend that opened it, which closes it; -1 = none
    uint32_t batch; // slots
    uint64_t slot_bytes;
    uint8_t *arena;          // batch * slot_bytes, lazily committed zero pages
    struct mmsghdr *headers; // one a slot; NULL when batch is 1
    struct iovec *vectors;   // one a slot; NULL when batch is 1
    size_t single_received;  // result of recv, when batch is 1
};

/// The slot size for a copy range: copy_bytes + QUEUE_OVERHEAD_BYTES, rounded up to
/// QUEUE_SOCKET_SLOT_ALIGN.
uint64_t queue_socket_slot_bytes(uint32_t copy_bytes);

/// Makes the arena (calloc) and the headers of recvmmsg. fd is left at -1 for the backend.
/// - Returns 0 or -ENOMEM, *socket untouched.
int queue_socket_init(struct queue_socket *socket, uint32_t batch, uint64_t slot_bytes);

/// Frees what queue_socket_init made. Doesn't close fd.
void queue_socket_free(struct queue_socket *socket);

/// Bounds blocking receive calls to QUEUE_SOCKET_ACK_SECONDS (SO_RCVTIMEO); the packet path
/// never blocks.
/// - Returns 0 or -errno.
int queue_socket_bound_wait(const struct queue_socket *socket);

/// Asks for a receive buffer: SO_RCVBUFFORCE, which needs CAP_NET_ADMIN in the first user
/// namespace, else SO_RCVBUF, which is limited by net.core.rmem_max.
/// - wanted_bytes: as given to setsockopt; 0 = leave it.
/// - granted_bytes: what the kernel gives, in the same measure (half of what getsockopt reports,
///   as the kernel doubles the value that was set).
/// - Returns 0 (even if the kernel gives less), or -errno, granted_bytes untouched.
int queue_socket_set_buffer(const struct queue_socket *socket, uint32_t wanted_bytes,
                            uint32_t *granted_bytes);

/// Receives up to batch messages into the arena: recvmmsg, or recv when batch is 1.
/// - blocking: false on the packet path (MSG_DONTWAIT). True while configuring: waits for the
///   first message (MSG_WAITFORONE with recvmmsg), as long as queue_socket_bound_wait has set.
/// - Returns the number of messages, 0 if the socket is empty, -ENOBUFS if the kernel had to
///   drop messages, or another -errno. EINTR is retried.
int queue_socket_receive(struct queue_socket *socket, bool blocking);

/// Stores a message in the first slot as if it had been received there, as far as the slot
/// holds it.
void queue_socket_keep(struct queue_socket *socket, const uint8_t *bytes, size_t length);

/// The message of a slot, 0 <= index < what queue_socket_receive returned.
struct queue_message queue_socket_message(const struct queue_socket *socket, uint32_t index);

/// The name of the call that queue_socket_receive makes: "recvmmsg" or "recv".
const char *queue_socket_receive_call(const struct queue_socket *socket);

#endif
