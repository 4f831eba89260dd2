/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * /dev/twinwall-message: calls between processes. A server binds a port, clients connect to it,
 * call, and wait for the answer. What kernel and programs agree on.
 *
 * The owner of a port or connection is the open file: it lives as long as any descriptor of it
 * does. All numbers have a fixed size, so there is one layout; 32-bit processes are refused
 * (ENOTTY).
 *
 * A descriptor with O_NONBLOCK waits neither for room in the queue nor for a request; the answer to
 * a call is waited for all the same, as long as the deadline says. poll: EPOLLIN, a request waits;
 * EPOLLOUT, the queue has room; EPOLLHUP, the server is gone.
 */
#ifndef TWINWALL_MESSAGE_H
#define TWINWALL_MESSAGE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TWINWALL_MESSAGE_PATH "/dev/twinwall-message"

/* Bytes of a message, in all its parts. */
#define TWINWALL_MESSAGE_BYTES_MOST (1 << 20)
/* Bytes of a one-way message: it lies in the kernel, with nobody waiting for it. */
#define TWINWALL_MESSAGE_ONE_WAY_MOST (1 << 16)
#define TWINWALL_MESSAGE_PARTS_MOST 16
/* Requests that wait at a port, and requests that a server owes an answer to: each at most so many.
 */
#define TWINWALL_MESSAGE_QUEUE_MOST 256

/* Bytes of the process that makes the call. The layout of struct iovec. */
struct twinwall_part {
    __u64 address;
    __u64 length;
};

/* Becomes a port's server. EADDRINUSE: the port has one. EISCONN: this descriptor is a server or
 * client already. */
struct twinwall_bind {
    __u32 port;  /* 1 to 2^31 - 1 */
    __u32 queue; /* requests that may wait, 1 to TWINWALL_MESSAGE_QUEUE_MOST */
    __u32 flags; /* TWINWALL_ANY_USER; without it only processes of the server's user connect */
    __u32 reserved;
};
#define TWINWALL_ANY_USER 1

/* Becomes a client of a port. ECONNREFUSED: it has no server. EACCES: the server wants only its own
 * user. */
struct twinwall_connect {
    __u32 port;
    __u32 reserved;
    __s32 pid; /* out: the server's when it bound the port; 0 if the caller can't see it */
    __u32 uid; /* out: the server's, in the caller's user namespace */
};

/*
 * Sends a request and waits for its answer. EPIPE: the server has gone and did not take the
 * request. ECONNRESET: it took it and has gone. ETIMEDOUT: the deadline. EAGAIN: no room, with
 * O_NONBLOCK. EINTR: a signal, when the server had the request (before, the call is made again if
 * the signal's action says so). EMSGSIZE: a message over the limit. ENOBUFS: what this user has on
 * the way is more than RLIMIT_MEMLOCK. EFAULT: an address that can't be read, or not be written.
 */
struct twinwall_call {
    __u64 parts;       /* address of struct twinwall_part */
    __u64 answer_room; /* the same, for the answer */
    __u32 part_count;
    __u32 answer_room_count;
    __u64 deadline_ns;   /* CLOCK_MONOTONIC; 0: none */
    __u64 answer_length; /* out */
    __u32 flags; /* TWINWALL_ONE_WAY: there is no answer, and nothing waits for the server */
    __u32 reserved;
};
#define TWINWALL_ONE_WAY 1

/*
 * Gives an answer (if `token` isn't 0) and waits for the next request: a server needs one system
 * call a request.
 *
 * Of the answer: ENOENT: no request of this port has that token. ECANCELED: the caller didn't wait.
 * EMSGSIZE: the caller has no such room. In the last case, and with EFAULT, the token stays good. A
 * token that is used up is set to 0 here even if what follows fails, so that the same call can be
 * made again. Of the request: EAGAIN, ETIMEDOUT, EINTR; EBUSY: answers to so many requests are owed
 * already.
 */
struct twinwall_receive {
    __u64 token;        /* in: the request that is answered; out: the one that was received, 0 for a
                           one-way message */
    __u64 answer_parts; /* address of struct twinwall_part */
    __u64 room;         /* the same, for the request */
    __u32 answer_part_count;
    __u32 room_count;
    __u64 deadline_ns; /* CLOCK_MONOTONIC; 0: none */
    __u64
        length;  /* out: of the request, even if the room is smaller: then the rest of it is lost */
    __s32 pid;   /* out: of the sender, in the namespace of the receiver; 0 if that has no such
                    process */
    __u32 uid;   /* out: the same way */
    __u32 flags; /* TWINWALL_ANSWER_ONLY: doesn't wait for a request */
    __u32 reserved;
};
#define TWINWALL_ANSWER_ONLY 1

#define TWINWALL_MESSAGE_BIND _IOW('w', 0x70, struct twinwall_bind)
#define TWINWALL_MESSAGE_CONNECT _IOWR('w', 0x71, struct twinwall_connect)
#define TWINWALL_MESSAGE_CALL _IOWR('w', 0x72, struct twinwall_call)
#define TWINWALL_MESSAGE_RECEIVE _IOWR('w', 0x73, struct twinwall_receive)

#endif
