/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Declarations shared by the module's files. An open file (`struct end`) is a server or a client of
 * a port. A request is a `struct message` in one of its port's two lists, first of the waiting,
 * then of the served messages; the port's lock guards the lists and the state of their messages.
 *
 * A message has two owners, its caller (unless it is one-way) and its port, and is freed with the
 * last reference. So each end may leave at any time: a leaving caller marks the message, a leaving
 * server completes it.
 *
 * No process waits for the memory of another process. The caller pins its own pages; the server
 * reads them without a lock, and writes them piece by piece under the port's lock, with its own
 * faults handled outside of it.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <linux/bvec.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "flaw.h"
#include "twinwall_message.h"

/* Maximum bytes of a message stored in `struct message` itself. */
#define SMALL_BYTES 256

/* The bytes of a request or an answer: copied, or pinned in their owner's memory. */
struct payload {
    size_t length;          /* length to read; for an answer's room, the length written */
    void *bytes;            /* copied: allocated, or `small` of the message; NULL if pinned */
    struct bio_vec *pieces; /* pinned: a page or less each */
    unsigned int piece_count;
    unsigned int dirty_count;    /* pieces that were written */
    struct user_struct *charged; /* user charged by RLIMIT_MEMLOCK, and number of pages */
    unsigned long charged_pages;
};

enum message_state {
    MESSAGE_WAITING,   /* in port->waiting */
    MESSAGE_TAKEN,     /* in no list: a receiver copies it */
    MESSAGE_SERVED,    /* in port->served: its token is valid */
    MESSAGE_ANSWERING, /* in port->served: an answer is being copied */
    MESSAGE_DONE,      /* in no list: `error` or `answer` is set */
};

struct message {
    struct list_head node;
    refcount_t references;
    enum message_state state;
    bool one_way;
    bool left; /* the caller has left: its task and `answer.pieces` must not be used */
    int error;
    u64 token;
    size_t answer_room;
    struct task_struct *caller;
    struct pid *pid;
    kuid_t uid;
    struct payload request;
    struct payload answer;
    u8 small[SMALL_BYTES]; /* the request, and after its delivery, the answer */
};

struct port {
    refcount_t references;
    u32 number;
    u32 limit;
    bool any_user;
    kuid_t uid;
    struct pid *pid;
    spinlock_t lock;
    bool dead;
    u64 last_token;
    u32 waiting_count;
    u32 served_count;
    struct list_head waiting;
    struct list_head served;
    wait_queue_head_t receivers;
    wait_queue_head_t room;
};

/* An open file. `port` is set once, after `serves`. */
struct end {
    struct mutex lock;
    struct port *port;
    bool serves;
};

/* payload.c */
int payload_of_request(struct payload *payload, struct iov_iter *from, bool one_way, u8 *small);
int payload_of_room(struct payload *payload, struct iov_iter *to);
int payload_of_answer(struct payload *payload, struct iov_iter *from, u8 *small);
int payload_to_user(const struct payload *payload, struct iov_iter *to);
void payload_unpin(struct payload *payload);
void payload_free(struct payload *payload, const u8 *small);
int parts_import(u64 address, u32 count, int direction, struct iovec *parts, struct iov_iter *iter);

/* port.c */
long port_bind(struct end *end, struct twinwall_bind __user *user);
long port_connect(struct end *end, struct twinwall_connect __user *user);
void port_close(struct port *port);
void port_put(struct port *port);
int sleep_until(u64 deadline_ns);

/*
 * Wakes one waiting task and all that poll; the port's lock is held. A waiting task enters the
 * queue before it checks the port under its lock, so an empty queue means that no task has missed
 * the event.
 */
static inline void port_wake(struct wait_queue_head *queue, __poll_t events) {
    if (waitqueue_active(queue))
        wake_up_interruptible_poll(queue, events);
}

/* call.c */
int message_init(void);
void message_exit(void);
void message_put(struct message *message);
void message_complete(struct message *message, int error);
long message_call(struct port *port, struct twinwall_call __user *user, bool nonblock);

/* receive.c */
long message_receive(struct port *port, struct twinwall_receive __user *user, bool nonblock);

#endif
