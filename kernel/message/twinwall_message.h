/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * /dev/twinwall-message: calls between processes, the user interface. A server binds a port;
 * clients connect to it, call, and wait for the answer.
 *
 * The open file owns its port or connection, until its last descriptor is closed. All fields have
 * fixed sizes, so there is one layout; 32-bit processes are refused (ENOTTY).
 *
 * With O_NONBLOCK a descriptor waits neither for room in the queue nor for a request; a call still
 * waits for its answer until the deadline. poll: EPOLLIN, a request is waiting; EPOLLOUT, the queue
 * has room; EPOLLHUP, the server has ended.
 */
#ifndef TWINWALL_MESSAGE_H
#define TWINWALL_MESSAGE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TWINWALL_MESSAGE_PATH "/dev/twinwall-message"

/* Maximum bytes of a message, in all its parts. */
#define TWINWALL_MESSAGE_BYTES_MOST (1 << 20)
/* Maximum bytes of a one-way message, which is stored in the kernel while no process waits for it.
 * */
#define TWINWALL_MESSAGE_ONE_WAY_MOST (1 << 16)
#define TWINWALL_MESSAGE_PARTS_MOST 16
/* Maximum number of requests waiting at a port, and of requests that a server has not answered yet.
 * */
#define TWINWALL_MESSAGE_QUEUE_MOST 256

/* A range of the calling process's memory, with the layout of struct iovec. */
struct twinwall_part {
    __u64 address;
    __u64 length;
};

/* Binds a port as its server. EADDRINUSE: the port has a server. EISCONN: this descriptor is
 * already a server or client. */
struct twinwall_bind {
    __u32 port;  /* 1 to 2^31 - 1 */
    __u32 queue; /* maximum number of waiting requests, 1 to TWINWALL_MESSAGE_QUEUE_MOST */
    __u32 flags; /* TWINWALL_ANY_USER; without it the server's user or CAP_IPC_OWNER is required */
    __u32 reserved;
};
#define TWINWALL_ANY_USER 1

/* Connects to a port as a client. ECONNREFUSED: it has no server. EACCES: the server accepts only
 * its own user. */
struct twinwall_connect {
    __u32 port;
    __u32 reserved;
    __s32 pid; /* out: the server's when it bound the port; 0 if invisible to the caller */
    __u32 uid; /* out: the server's, in the caller's user namespace */
};

/*
 * Sends a request and waits for its answer. EPIPE: the server ended before it received the request.
 * ECONNRESET: it ended afterwards. ETIMEDOUT: the deadline passed. EAGAIN: no room, with
 * O_NONBLOCK. EINTR: a signal after the server received the request (before, the call is restarted
 * if the signal's action allows it). EMSGSIZE: a message over the limit. ENOBUFS: this user's
 * messages in transit exceed RLIMIT_MEMLOCK. EFAULT: an address that can't be read or written.
 */
struct twinwall_call {
    __u64 parts;       /* address of the request, struct twinwall_part[part_count] */
    __u64 answer_room; /* address of the answer's room, struct twinwall_part[answer_room_count] */
    __u32 part_count;
    __u32 answer_room_count;
    __u64 deadline_ns;   /* CLOCK_MONOTONIC; 0: none */
    __u64 answer_length; /* out: bytes of the answer */
    __u32 flags;         /* TWINWALL_ONE_WAY: no answer; waits only for room in the queue */
    __u32 reserved;
};
#define TWINWALL_ONE_WAY 1

/*
 * Answers a request (if `token` isn't 0) and waits for the next one: a server needs one system call
 * per request.
 *
 * Errors of the answer: ENOENT: no request of this port has that token. ECANCELED: the caller has
 * left. EMSGSIZE: the caller's room is too small. With EMSGSIZE and EFAULT the token stays valid. A
 * used token is set to 0 here even if the rest fails, so that the same call can be repeated. Errors
 * of the request: EAGAIN, ETIMEDOUT, EINTR; EBUSY: the maximum number of requests is unanswered.
 */
struct twinwall_receive {
    __u64 token;        /* in: token of the request to answer, 0: none; out: token of the received
                           request, 0 for a one-way message */
    __u64 answer_parts; /* address of the answer, struct twinwall_part[answer_part_count] */
    __u64 room;         /* address of the request's room, struct twinwall_part[room_count] */
    __u32 answer_part_count;
    __u32 room_count;
    __u64 deadline_ns; /* CLOCK_MONOTONIC; 0: none */
    __u64 length;      /* out: bytes of the request; the excess over the room is lost */
    __s32 pid;         /* out: the sender's, in the receiver's namespace; 0 if invisible there */
    __u32 uid;         /* out: the sender's, in the receiver's user namespace */
    __u32 flags;       /* TWINWALL_ANSWER_ONLY: receives no request */
    __u32 reserved;
};
#define TWINWALL_ANSWER_ONLY 1

#define TWINWALL_MESSAGE_BIND _IOW('w', 0x70, struct twinwall_bind)
#define TWINWALL_MESSAGE_CONNECT _IOWR('w', 0x71, struct twinwall_connect)
#define TWINWALL_MESSAGE_CALL _IOWR('w', 0x72, struct twinwall_call)
#define TWINWALL_MESSAGE_RECEIVE _IOWR('w', 0x73, struct twinwall_receive)

#endif
