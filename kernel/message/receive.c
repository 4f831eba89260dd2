// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The server's half: it answers its current request, and receives the next.
 */
#include <linux/cred.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "message.h"

/* Claims the message of a token for answering. With -EMSGSIZE the token stays valid. */
static struct message *claim(struct port *port, u64 token, size_t length) {
    struct message *message, *found = ERR_PTR(-ENOENT);

    spin_lock(&port->lock);
    list_for_each_entry(message, &port->served, node) {
        if (message->token != token || message->state != MESSAGE_SERVED)
            continue;
        found = message;
        if (!message->left && length > message->answer_room)
            found = ERR_PTR(-EMSGSIZE);
        else
            message->state = MESSAGE_ANSWERING;
        break;
    }
    spin_unlock(&port->lock);
    return found;
}

/* Copies an answer into the caller's pinned room, piece by piece, as long as the caller waits for
 * it. */
static int fill_room(struct port *port, struct message *message, struct iov_iter *from) {
    struct payload *answer = &message->answer;
    size_t total = iov_iter_count(from), done = 0;
    unsigned int i, offset = 0;

    for (i = 0; done < total;) {
        size_t length = 0, wanted = 0;
        bool left;

        spin_lock(&port->lock);
        left = message->left;
        if (!left) {
            const struct bio_vec *piece = &answer->pieces[i];

            wanted = min_t(size_t, piece->bv_len - offset, total - done);
            answer->dirty_count = i + 1;
            length =
                copy_page_from_iter_atomic(piece->bv_page, piece->bv_offset + offset, wanted, from);
            done += length;
            offset += length;
            if (offset == piece->bv_len) {
                offset = 0;
                i++;
            }
        }
        spin_unlock(&port->lock);
        if (left)
            return -ECANCELED;
        /* The server's memory isn't mapped yet: fault it in, without a lock. */
        if (fatal_signal_pending(current))
            return -EINTR;
        if (length < wanted && fault_in_iov_iter_readable(from, wanted - length) == wanted - length)
            return -EFAULT;
    }
    answer->length = total;
    return 0;
}

/* Answers a message. Returns 0 or an error; out: `*used_up` receives whether the token is used up.
 * */
static int answer(struct port *port, const struct twinwall_receive *ask, bool *used_up) {
    struct iovec parts[TWINWALL_MESSAGE_PARTS_MOST];
    struct message *message;
    struct iov_iter from;
    int error;

    *used_up = false;
    error = parts_import(ask->answer_parts, ask->answer_part_count, WRITE, parts, &from);
    if (error)
        return error;
    message = claim(port, ask->token, iov_iter_count(&from));
    if (IS_ERR(message))
        return PTR_ERR(message);
    /* If `left` is set, this value is not used: the caller unpins its pieces without a notice. */
    if (message->answer_room > 0 && READ_ONCE(message->answer.pieces))
        error = fill_room(port, message, &from);
    else
        error = payload_of_answer(&message->answer, &from, message->small);

    spin_lock(&port->lock);
    if (message->left)
        error = -ECANCELED;
    *used_up = !error || error == -ECANCELED;
    if (*used_up) {
        list_del(&message->node);
        port->served_count--;
        message_complete(message, 0);
    } else {
        message->state = MESSAGE_SERVED;
    }
    spin_unlock(&port->lock);
    if (*used_up)
        message_put(message);
    return error;
}

/* Removes and returns the first waiting message. -EAGAIN: there is none. -EBUSY: the maximum number
 * of requests is unanswered. */
static struct message *take(struct port *port) {
    struct message *message = ERR_PTR(-EAGAIN);

    spin_lock(&port->lock);
    if (port->served_count >= port->limit) {
        message = ERR_PTR(-EBUSY);
    } else if (!list_empty(&port->waiting)) {
        message = list_first_entry(&port->waiting, struct message, node);
        list_del(&message->node);
        message->state = MESSAGE_TAKEN;
        port->waiting_count--;
        port_wake(&port->room, EPOLLOUT | EPOLLWRNORM);
    }
    spin_unlock(&port->lock);
    return message;
}

static struct message *take_when_there(struct port *port, u64 deadline_ns, bool nonblock) {
    struct message *message = take(port);
    DEFINE_WAIT(wait);

    while (message == ERR_PTR(-EAGAIN) && !nonblock) {
        int slept;

        prepare_to_wait_exclusive(&port->receivers, &wait, TASK_INTERRUPTIBLE);
        message = take(port);
        if (message != ERR_PTR(-EAGAIN))
            break;
        slept = sleep_until(deadline_ns);
        /* A message for which this task was woken must not be lost to a simultaneous time-out. */
        message = take(port);
        if (slept && message == ERR_PTR(-EAGAIN)) {
            message = ERR_PTR(slept);
            break;
        }
    }
    finish_wait(&port->receivers, &wait);
    return message;
}

/* Returns a message to the queue that could not be copied to the receiver, so that it isn't lost.
 * */
static void put_back(struct port *port, struct message *message) {
    bool left;

    spin_lock(&port->lock);
    left = message->left;
    if (!left) {
        message->state = MESSAGE_WAITING;
        list_add(&message->node, &port->waiting);
        port->waiting_count++;
        port_wake(&port->receivers, EPOLLIN | EPOLLRDNORM);
    }
    spin_unlock(&port->lock);
    if (left)
        message_put(message);
}

/* Marks a delivered message as served, unless nobody waits for an answer. */
static int deliver(struct port *port, struct message *message) {
    bool left;

    payload_free(&message->request, message->small);
    spin_lock(&port->lock);
    left = message->left;
    if (!left && !message->one_way) {
        message->state = MESSAGE_SERVED;
        list_add_tail(&message->node, &port->served);
        port->served_count++;
    }
    spin_unlock(&port->lock);
    if (left || message->one_way)
        message_put(message);
    return left ? -ECANCELED : 0;
}

static u64 next_token(struct port *port) {
    u64 token;

    spin_lock(&port->lock);
    token = ++port->last_token;
    spin_unlock(&port->lock);
    return token;
}

static pid_t pid_of(const struct message *message) {
    if (HAS_FLAW(PID_GLOBAL))
        return pid_nr(message->pid);
    return pid_vnr(message->pid);
}

static int receive(struct port *port, struct twinwall_receive *ask,
                   struct twinwall_receive __user *user, bool nonblock) {
    struct iovec parts[TWINWALL_MESSAGE_PARTS_MOST];
    struct message *message;
    struct iov_iter to;
    int error;

    do {
        error = parts_import(ask->room, ask->room_count, READ, parts, &to);
        if (error)
            return error;
        message = take_when_there(port, ask->deadline_ns, nonblock);
        if (IS_ERR(message))
            return PTR_ERR(message);
        message->token = message->one_way ? 0 : next_token(port);
        ask->token = message->token;
        ask->length = message->request.length;
        ask->pid = pid_of(message);
        ask->uid = from_kuid_munged(current_user_ns(), message->uid);
        error = payload_to_user(&message->request, &to);
        if (!error && copy_to_user(user, ask, sizeof(*ask)))
            error = -EFAULT;
        if (error) {
            put_back(port, message);
            return error;
        }
        /* If the caller has left meanwhile, its request is discarded, and the next is received. */
        error = deliver(port, message);
        if (error && put_user((u64)0, &user->token))
            return -EFAULT;
    } while (error);
    return 0;
}

long message_receive(struct port *port, struct twinwall_receive __user *user, bool nonblock) {
    struct twinwall_receive ask;
    long error = 0;

    if (copy_from_user(&ask, user, sizeof(ask)))
        return -EFAULT;
    if (ask.flags & ~TWINWALL_ANSWER_ONLY || ask.reserved)
        return -EINVAL;
    if (ask.token) {
        bool used_up;

        error = answer(port, &ask, &used_up);
        if (used_up && put_user((u64)0, &user->token))
            return -EFAULT;
        if (error)
            return error;
        ask.token = 0;
    }
    if (ask.flags & TWINWALL_ANSWER_ONLY)
        return 0;
    return receive(port, &ask, user, nonblock);
}
