// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ports: their servers, permission to connect, and the release of waiting callers when the server
 * ends.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "message.h"

/* Ports that have a server, by number. */
static DEFINE_XARRAY(ports);
/* Held from finding a port to taking a reference, and while a port is removed. */
static DEFINE_MUTEX(ports_lock);

void port_put(struct port *port) {
    if (!refcount_dec_and_test(&port->references))
        return;
    put_pid(port->pid);
    kfree(port);
}

static struct port *port_new(const struct twinwall_bind *ask) {
    struct port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);

    if (!port)
        return NULL;
    refcount_set(&port->references, 1);
    port->number = ask->port;
    port->limit = ask->queue;
    port->any_user = ask->flags & TWINWALL_ANY_USER;
    port->uid = current_euid();
    port->pid = get_pid(task_tgid(current));
    spin_lock_init(&port->lock);
    INIT_LIST_HEAD(&port->waiting);
    INIT_LIST_HEAD(&port->served);
    init_waitqueue_head(&port->receivers);
    init_waitqueue_head(&port->room);
    return port;
}

/* Makes an open file an end of a port; `end->lock` is held. Other tasks see the store to `port`
 * last. */
static void become(struct end *end, struct port *port, bool serves) {
    end->serves = serves;
    smp_store_release(&end->port, port);
}

long port_bind(struct end *end, struct twinwall_bind __user *user) {
    struct twinwall_bind ask;
    struct port *port;
    long error;

    if (copy_from_user(&ask, user, sizeof(ask)))
        return -EFAULT;
    if (ask.port == 0 || ask.port > INT_MAX || ask.queue == 0 ||
        ask.queue > TWINWALL_MESSAGE_QUEUE_MOST || ask.flags & ~TWINWALL_ANY_USER || ask.reserved)
        return -EINVAL;
    port = port_new(&ask);
    if (!port)
        return -ENOMEM;
    mutex_lock(&end->lock);
    error = end->port ? -EISCONN : xa_insert(&ports, ask.port, port, GFP_KERNEL_ACCOUNT);
    if (!error)
        become(end, port, true);
    mutex_unlock(&end->lock);
    if (error == -EBUSY)
        error = -EADDRINUSE;
    if (error)
        port_put(port);
    return error;
}

static bool may_connect(const struct port *port) {
    return port->any_user || uid_eq(port->uid, current_euid()) || capable(CAP_IPC_OWNER);
}

long port_connect(struct end *end, struct twinwall_connect __user *user) {
    struct twinwall_connect ask;
    struct port *port;
    long error = 0;

    if (copy_from_user(&ask, user, sizeof(ask)))
        return -EFAULT;
    if (ask.reserved)
        return -EINVAL;
    mutex_lock(&end->lock);
    mutex_lock(&ports_lock);
    port = xa_load(&ports, ask.port);
    if (end->port)
        error = -EISCONN;
    else if (!port)
        error = -ECONNREFUSED;
    else if (!may_connect(port))
        error = -EACCES;
    if (!error) {
        ask.pid = pid_vnr(port->pid);
        ask.uid = from_kuid_munged(current_user_ns(), port->uid);
        if (!HAS_FLAW(PORT_UNCOUNTED))
            refcount_inc(&port->references);
        become(end, port, false);
    }
    mutex_unlock(&ports_lock);
    mutex_unlock(&end->lock);
    /* Without a lock: how long this takes depends on the memory of the caller. */
    if (!error && copy_to_user(user, &ask, sizeof(ask)))
        error = -EFAULT;
    return error;
}

/* Completes the messages of a list and moves them to `done`; the port's lock is held. */
static void complete_list(struct list_head *messages, int error, struct list_head *done) {
    struct message *message;

    list_for_each_entry(message, messages, node) message_complete(message, error);
    list_splice_tail_init(messages, done);
}

/*
 * Closes a port with its server's file: unregisters it and completes all its messages. No ioctl of
 * that file is running, so no message is TAKEN or ANSWERING.
 */
void port_close(struct port *port) {
    struct message *message, *next;
    LIST_HEAD(done);

    mutex_lock(&ports_lock);
    xa_erase(&ports, port->number);
    mutex_unlock(&ports_lock);

    spin_lock(&port->lock);
    port->dead = true;
    if (!HAS_FLAW(DEATH_UNTOLD)) {
        complete_list(&port->waiting, -EPIPE, &done);
        complete_list(&port->served, -ECONNRESET, &done);
        port->waiting_count = 0;
        port->served_count = 0;
    }
    spin_unlock(&port->lock);
    /* Without a lock: the last reference may free pages. */
    list_for_each_entry_safe(message, next, &done, node) message_put(message);
    wake_up_interruptible_all(&port->room);
}

/*
 * Sleeps in the task's current state. Returns 0 when woken, -ETIMEDOUT after the deadline
 * (CLOCK_MONOTONIC, 0 for none), -ERESTARTSYS after a signal.
 */
int sleep_until(u64 deadline_ns) {
    ktime_t deadline = min_t(u64, deadline_ns, KTIME_MAX);

    if (signal_pending(current))
        return -ERESTARTSYS;
    if (deadline_ns == 0 || HAS_FLAW(DEADLINE_IGNORED))
        schedule();
    else if (schedule_hrtimeout_range(&deadline, 0, HRTIMER_MODE_ABS) == 0)
        return -ETIMEDOUT;
    return signal_pending(current) ? -ERESTARTSYS : 0;
}
