// SPDX-License-Identifier: GPL-2.0-or-later
// Netlink socket with its receive arena (a buffer with one slot per message): receiving, and the
// size of the kernel's receive buffer. All three backends use it.
#ifndef QUEUE_SOCKET_H
#define QUEUE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    // Size of the space in a receive slot for headers and all attributes except payload and
    // NFQA_CT, in bytes.
    QUEUE_OVERHEAD_BYTES = 512,
    // Number of bytes of which a slot's size is a multiple: the size of a cache line.
    QUEUE_SOCKET_SLOT_ALIGN = 64,
    // Time limit for the answer to a configuration request (SO_RCVTIMEO), in seconds.
    QUEUE_SOCKET_ACK_SECONDS = 1,
};

/// Message in its receive slot. It is valid until the next receive call.
struct queue_message {
    const uint8_t *bytes;
    size_t received; // number of the message's bytes in the arena
    // True if the message was longer than its slot (MSG_TRUNC); always false if batch is 1.
    bool truncated;
};

struct queue_socket {
    int fd;         // descriptor of the socket, which the backend closes; -1 = none
    uint32_t batch; // number of slots
    uint64_t slot_bytes;
    uint8_t *arena;          // buffer of batch * slot_bytes, lazily allocated zero pages
    struct mmsghdr *headers; // headers for recvmmsg, one per slot; NULL if batch is 1
    struct iovec *vectors;  // vectors, one per slot, to which the headers point; NULL if batch is 1
    size_t single_received; // number of bytes that recv received, if batch is 1
};

/// Returns the slot size in bytes for a copy range: copy_bytes + QUEUE_OVERHEAD_BYTES, rounded up
/// to a multiple of QUEUE_SOCKET_SLOT_ALIGN.
uint64_t queue_socket_slot_bytes(uint32_t copy_bytes);

/// Creates the arena (calloc) and the headers for recvmmsg. fd stays -1 until the backend sets it.
/// - Returns 0, or -ENOMEM with *socket untouched.
int queue_socket_init(struct queue_socket *socket, uint32_t batch, uint64_t slot_bytes);

/// Frees the arena and the headers. Does not close fd.
void queue_socket_free(struct queue_socket *socket);

/// Limits the duration of blocking receive calls to QUEUE_SOCKET_ACK_SECONDS (SO_RCVTIMEO); the
/// packet path never blocks.
/// - Returns 0 or -errno.
int queue_socket_bound_wait(const struct queue_socket *socket);

/// Sets the size of the receive buffer by SO_RCVBUFFORCE, which needs CAP_NET_ADMIN in the initial
/// user namespace. If that fails, sets it by SO_RCVBUF, which net.core.rmem_max limits.
/// - wanted_bytes: value for setsockopt; 0 = unchanged.
/// - granted_bytes: out: the size that the kernel gives, in the unit of setsockopt: half of
///   getsockopt's value, because the kernel doubles the value.
/// - Returns 0 (also if the kernel gives less), or -errno with *granted_bytes untouched.
int queue_socket_set_buffer(const struct queue_socket *socket, uint32_t wanted_bytes,
                            uint32_t *granted_bytes);

/// Receives up to batch messages into the arena: by recvmmsg, or by recv if batch is 1.
/// - blocking: false on the packet path (MSG_DONTWAIT). True during configuration: waits for the
///   first message (MSG_WAITFORONE with recvmmsg), at most for the time of queue_socket_bound_wait.
/// - Returns the number of messages, 0 if the socket is empty, -ENOBUFS if the kernel had to drop
///   messages, or another -errno. Retries after EINTR.
int queue_socket_receive(struct queue_socket *socket, bool blocking);

/// Stores a message in the first slot as if it had been received there. Cuts a message that is
/// longer than the slot.
void queue_socket_keep(struct queue_socket *socket, const uint8_t *bytes, size_t length);

/// Returns the message of a slot.
/// - index: less than the result of queue_socket_receive.
struct queue_message queue_socket_message(const struct queue_socket *socket, uint32_t index);

/// Returns the name of the system call that queue_socket_receive makes: "recvmmsg" or "recv".
const char *queue_socket_receive_call(const struct queue_socket *socket);

#endif
