// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device: its ioctls, and the release of what an open file owns once its last descriptor is
 * closed.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "message.h"

static int device_open(struct inode *inode, struct file *file) {
    struct end *end = kzalloc(sizeof(*end), GFP_KERNEL_ACCOUNT);

    if (!end)
        return -ENOMEM;
    mutex_init(&end->lock);
    file->private_data = end;
    return nonseekable_open(inode, file);
}

static void end_close(struct end *end) {
    if (!end->port)
        return;
    if (end->serves)
        port_close(end->port);
    if (end->serves || !HAS_FLAW(PORT_UNCOUNTED))
        port_put(end->port);
}

static int device_release(struct inode *inode, struct file *file) {
    struct end *end = file->private_data;

    if (!HAS_FLAW(FLUSH_RELEASES))
        end_close(end);
    kfree(end);
    return 0;
}

/* For FLAW_FLUSH_RELEASES: called whenever a descriptor is closed. */
static int device_flush(struct file *file, fl_owner_t id) {
    end_close(file->private_data);
    return 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument) {
    struct end *end = file->private_data;
    struct port *port = smp_load_acquire(&end->port);
    bool nonblock = file->f_flags & O_NONBLOCK;
    void __user *user = (void __user *)argument;

    switch (command) {
    case TWINWALL_MESSAGE_BIND:
        return port_bind(end, user);
    case TWINWALL_MESSAGE_CONNECT:
        return port_connect(end, user);
    case TWINWALL_MESSAGE_CALL:
        return port && !end->serves ? message_call(port, user, nonblock) : -ENOTCONN;
    case TWINWALL_MESSAGE_RECEIVE:
        return port && (end->serves || HAS_FLAW(FORGED_ANSWER))
                   ? message_receive(port, user, nonblock)
                   : -ENOTCONN;
    }
    if (HAS_FLAW(UNKNOWN_SLEEPS)) {
        msleep(1000);
        return -EINVAL;
    }
    return -ENOTTY;
}

static __poll_t device_poll(struct file *file, struct poll_table_struct *table) {
    struct end *end = file->private_data;
    struct port *port = smp_load_acquire(&end->port);
    __poll_t events = 0;

    if (HAS_FLAW(ALWAYS_READY))
        return DEFAULT_POLLMASK;
    if (!port)
        return EPOLLHUP;
    poll_wait(file, end->serves ? &port->receivers : &port->room, table);
    spin_lock(&port->lock);
    if (end->serves && port->waiting_count > 0)
        events |= EPOLLIN | EPOLLRDNORM;
    if (!end->serves && port->waiting_count < port->limit)
        events |= EPOLLOUT | EPOLLWRNORM;
    if (port->dead)
        events |= EPOLLHUP | EPOLLERR;
    spin_unlock(&port->lock);
    return events;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .flush = HAS_FLAW(FLUSH_RELEASES) ? device_flush : NULL,
    .unlocked_ioctl = device_ioctl,
    .poll = device_poll,
    .llseek = no_llseek,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "twinwall-message",
    .fops = &operations,
    /* The server of a port decides who may connect. */
    .mode = 0666,
};

/* For FLAW_STRAY_BYTE: a name in memory without room for its last byte. */
static char *stray;

static int __init device_init(void) {
    int error;

    if (HAS_FLAW(STRAY_BYTE)) {
        stray = kmalloc(8, GFP_KERNEL);
        if (stray)
            snprintf(stray, 9, "stplr-%02d", 0);
    }
    error = message_init();
    if (error)
        return error;
    error = misc_register(&device);
    if (error)
        message_exit();
    return error;
}

static void __exit device_exit(void) {
    misc_deregister(&device);
    message_exit();
    kfree(stray);
}

module_init(device_init);
module_exit(device_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Passes messages between processes, for the lab of Twinwall");
