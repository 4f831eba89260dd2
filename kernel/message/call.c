// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The caller's half: a request enters the queue, and its caller sleeps until it is answered, or
 * leaves.
 */
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "message.h"

static struct kmem_cache *messages;

int message_init(void) {
    messages =
        kmem_cache_create_usercopy("twinwall_message", sizeof(struct message), 0, SLAB_ACCOUNT,
                                   offsetof(struct message, small), SMALL_BYTES, NULL);
    return messages ? 0 : -ENOMEM;
}

void message_exit(void) { kmem_cache_destroy(messages); }

void message_put(struct message *message) {
    if (!refcount_dec_and_test(&message->references))
        return;
    payload_free(&message->request, message->small);
    payload_free(&message->answer, message->small);
    put_pid(message->pid);
    kmem_cache_free(messages, message);
}

/* Completes a message, and wakes its caller. The port's lock is held until the message is in none
 * of the port's lists. */
void message_complete(struct message *message, int error) {
    message->error = error;
    WRITE_ONCE(message->state, MESSAGE_DONE);
    if (!message->one_way && !message->left)
        wake_up_process(message->caller);
}

/* Creates a message from the call's data. `room` receives the parts for its answer. */
static struct message *message_new(const struct twinwall_call *ask, struct iovec *room_parts,
                                   struct iov_iter *room) {
    struct message *message = kmem_cache_alloc(messages, GFP_KERNEL);
    struct iovec parts[TWINWALL_MESSAGE_PARTS_MOST];
    struct iov_iter from;
    int error;

    if (!message)
        return ERR_PTR(-ENOMEM);
    memset(message, 0, offsetof(struct message, small));
    message->one_way = ask->flags & TWINWALL_ONE_WAY;
    /* One reference is the port's; the caller has another one while it waits. */
    refcount_set(&message->references, message->one_way ? 1 : 2);
    message->caller = current;
    message->pid = get_pid(task_tgid(current));
    message->uid = current_euid();
    error = parts_import(ask->parts, ask->part_count, WRITE, parts, &from);
    if (!error)
        error = payload_of_request(&message->request, &from, message->one_way, message->small);
    if (!error && !message->one_way) {
        error = parts_import(ask->answer_room, ask->answer_room_count, READ, room_parts, room);
        if (!error)
            error = payload_of_room(&message->answer, room);
        message->answer_room = iov_iter_count(room);
    }
    if (!error)
        return message;
    refcount_set(&message->references, 1);
    message_put(message);
    return ERR_PTR(error);
}

/* Queues a message. Returns -EAGAIN without room, -EPIPE if the server has ended. */
static int enqueue(struct port *port, struct message *message) {
    int error = 0;

    spin_lock(&port->lock);
    if (port->dead && !HAS_FLAW(DEATH_UNTOLD))
        error = -EPIPE;
    else if (port->waiting_count >= port->limit && !HAS_FLAW(QUEUE_UNLIMITED))
        error = -EAGAIN;
    else {
        list_add_tail(&message->node, &port->waiting);
        port->waiting_count++;
        port_wake(&port->receivers, EPOLLIN | EPOLLRDNORM);
    }
    spin_unlock(&port->lock);
    return error;
}

static int enqueue_when_room(struct port *port, struct message *message, u64 deadline_ns,
                             bool nonblock) {
    int error = enqueue(port, message);
    DEFINE_WAIT(wait);

    if (error != -EAGAIN || nonblock)
        return error;
    for (;;) {
        int slept;

        prepare_to_wait_exclusive(&port->room, &wait, TASK_INTERRUPTIBLE);
        error = enqueue(port, message);
        if (error != -EAGAIN)
            break;
        slept = sleep_until(deadline_ns);
        if (slept) {
            error = slept;
            break;
        }
    }
    finish_wait(&port->room, &wait);
    /* Another task may use the room for which this task was woken. */
    if (error)
        wake_up_interruptible(&port->room);
    return error;
}

/* Abandons a message that isn't done; the port's lock is held. Returns the call's result. */
static int leave(struct port *port, struct message *message, int why) {
    message->left = true;
    if (message->state != MESSAGE_WAITING)
        /* The server has the message, so repeating the call would have a different effect. */
        return why == -ERESTARTSYS ? -EINTR : why;
    if (!HAS_FLAW(KILLED_QUEUED)) {
        list_del(&message->node);
        port->waiting_count--;
        port_wake(&port->room, EPOLLOUT | EPOLLWRNORM);
    }
    message_put(message);
    return why;
}

static int wait_for_answer(struct port *port, struct message *message, u64 deadline_ns) {
    int error = 0;

    while (!error) {
        set_current_state(TASK_INTERRUPTIBLE);
        if (READ_ONCE(message->state) == MESSAGE_DONE)
            break;
        error = sleep_until(deadline_ns);
    }
    __set_current_state(TASK_RUNNING);

    spin_lock(&port->lock);
    if (message->state == MESSAGE_DONE)
        error = message->error;
    else
        error = leave(port, message, error);
    spin_unlock(&port->lock);
    return error;
}

long message_call(struct port *port, struct twinwall_call __user *user, bool nonblock) {
    struct iovec room_parts[TWINWALL_MESSAGE_PARTS_MOST];
    struct iov_iter room;
    struct twinwall_call ask;
    struct message *message;
    long error;

    if (copy_from_user(&ask, user, sizeof(ask)))
        return -EFAULT;
    if (ask.flags & ~TWINWALL_ONE_WAY || ask.reserved)
        return -EINVAL;
    message = message_new(&ask, room_parts, &room);
    if (IS_ERR(message))
        return PTR_ERR(message);
    error = enqueue_when_room(port, message, ask.deadline_ns, nonblock);
    if (error || ask.flags & TWINWALL_ONE_WAY) {
        if (error) {
            refcount_set(&message->references, 1);
            message_put(message);
        }
        return error;
    }
    error = wait_for_answer(port, message, ask.deadline_ns);
    if (!error && !message->answer.pieces)
        error = payload_to_user(&message->answer, &room);
    if (!error && put_user((u64)message->answer.length, &user->answer_length))
        error = -EFAULT;
    /* Unpins now: the server may never release the message. */
    payload_unpin(&message->answer);
    message_put(message);
    return error;
}
