// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device: its ioctls, the release of a ring once its last descriptor and last mapping are gone,
 * and its detachment from an interface that goes away.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "twinring.h"

/* Guards `rings`, the rings attached to an interface. Taken after the rtnetlink lock. */
static DEFINE_MUTEX(rings_lock);
static LIST_HEAD(rings);

static int device_open(struct inode *inode, struct file *file) {
    struct ring *ring;

    if (!capable(CAP_NET_RAW))
        return -EPERM;
    ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);
    if (!ring)
        return -ENOMEM;
    mutex_init(&ring->lock);
    INIT_LIST_HEAD(&ring->entry);
    init_waitqueue_head(&ring->readers);
    fill_init(ring);
    file->private_data = ring;
    return nonseekable_open(inode, file);
}

/* Detaches from the interface; rings_lock is held. On return no packet is being processed. */
static void let_go(struct ring *ring) {
    if (list_empty(&ring->entry))
        return;
    list_del_init(&ring->entry);
    dev_remove_pack(&ring->hook);
    dev_put(ring->device);
    ring->device = NULL;
}

static void stop(struct ring *ring) {
    mutex_lock(&rings_lock);
    let_go(ring);
    mutex_unlock(&rings_lock);
}

static int device_release(struct inode *inode, struct file *file) {
    struct ring *ring = file->private_data;

    stop(ring);
    del_timer_sync(&ring->timer);
    if (ring->filter)
        bpf_prog_destroy(ring->filter);
    pages_free(ring);
    kfree(ring);
    return 0;
}

/* Attaches to an interface. */
static int hear(struct ring *ring, u32 interface) {
    struct net_device *device;
    int error = 0;

    rtnl_lock();
    device = __dev_get_by_index(current->nsproxy->net_ns, interface);
    if (!device || device->reg_state != NETREG_REGISTERED) {
        error = -ENODEV;
        goto out;
    }
    dev_hold(device);
    ring->device = device;
    ring->hook.type = htons(ETH_P_ALL);
    ring->hook.dev = device;
    ring->hook.func = fill_packet;
    /* On loopback each packet passes twice. */
    ring->hook.ignore_outgoing = device->flags & IFF_LOOPBACK;
    mutex_lock(&rings_lock);
    list_add(&ring->entry, &rings);
    dev_add_pack(&ring->hook);
    mutex_unlock(&rings_lock);
out:
    rtnl_unlock();
    return error;
}

static int take_filter(struct ring *ring, const struct twinwall_ring_setup *setup) {
    struct sock_fprog program = {.len = setup->steps, .filter = u64_to_user_ptr(setup->filter)};

    if (!setup->steps)
        return 0;
    if (setup->steps > BPF_MAXINSNS)
        return -EINVAL;
    return bpf_prog_create_from_user(&ring->filter, &program, NULL, false);
}

static int set_up(struct ring *ring, const struct twinwall_ring_setup *setup) {
    int error;

    if (ring->blocks)
        return -EISCONN;
    if (setup->policy >= TWINWALL_RING_POLICIES || setup->blocks < 2 ||
        setup->blocks > TWINWALL_RING_BLOCKS_MOST || setup->snap_bytes == 0 ||
        setup->snap_bytes > TWINWALL_RING_BLOCK / 2 || setup->timeout_ms == 0 ||
        setup->timeout_ms > 60000)
        return -EINVAL;
    ring->snap_bytes = setup->snap_bytes;
    ring->timeout_ms = setup->timeout_ms;
    error = take_filter(ring, setup);
    if (error)
        return error;
    error = pages_make(ring, setup);
    if (error == 0) {
        error = hear(ring, setup->interface);
        if (error)
            pages_free(ring);
    }
    if (error && ring->filter) {
        bpf_prog_destroy(ring->filter);
        ring->filter = NULL;
    }
    return error;
}

static int answer_statistics(struct ring *ring, void __user *user) {
    struct twinwall_ring_statistics counts;

    spin_lock_bh(&ring->fill);
    counts.packets = ring->packets;
    counts.drops = ring->drops;
    spin_unlock_bh(&ring->fill);
    return copy_to_user(user, &counts, sizeof(counts)) ? -EFAULT : 0;
}

static int answer_census(struct ring *ring, void __user *user) {
    unsigned long bytes = (unsigned long)ring->blocks * TWINWALL_RING_BLOCK;
    struct twinwall_ring_census census;
    u64 address;

    if (copy_from_user(&census, user, sizeof(census)))
        return -EFAULT;
    address = census.address;
    if (!bytes)
        return -ENODEV;
    if (address % PAGE_SIZE || address >= TASK_SIZE_MAX || TASK_SIZE_MAX - address < bytes)
        return -EINVAL;
    memset(&census, 0, sizeof(census));
    census.address = address;
    census_kernel(ring, &census.kernel);
    census_user(address, bytes, &census.user);
    return copy_to_user(user, &census, sizeof(census)) ? -EFAULT : 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument) {
    struct ring *ring = file->private_data;
    void __user *user = (void __user *)argument;
    struct twinwall_ring_setup setup;
    long result = -ENOTTY;

    if (command == TWINWALL_RING_SETUP && copy_from_user(&setup, user, sizeof(setup)))
        return -EFAULT;
    mutex_lock(&ring->lock);
    if (command == TWINWALL_RING_SETUP)
        result = set_up(ring, &setup);
    else if (command == TWINWALL_RING_STATISTICS)
        result = answer_statistics(ring, user);
    else if (command == TWINWALL_RING_CENSUS)
        result = answer_census(ring, user);
    else if (command == TWINWALL_RING_STOP) {
        stop(ring);
        fill_flush(ring);
        result = 0;
    }
    mutex_unlock(&ring->lock);
    return result;
}

/* The mm's lock is held, but the census takes it inside ours: so this function must not wait. */
static int device_mmap(struct file *file, struct vm_area_struct *area) {
    struct ring *ring = file->private_data;
    int error;

    if (!mutex_trylock(&ring->lock))
        return -EAGAIN;
    error = pages_map(ring, file, area);
    mutex_unlock(&ring->lock);
    return error;
}

static __poll_t device_poll(struct file *file, struct poll_table_struct *table) {
    struct ring *ring = file->private_data;
    __poll_t events = 0;

    poll_wait(file, &ring->readers, table);
    mutex_lock(&ring->lock);
    if (ring->blocks && fill_is_readable(ring))
        events |= EPOLLIN | EPOLLRDNORM;
    mutex_unlock(&ring->lock);
    if (READ_ONCE(ring->gone))
        events |= EPOLLERR | EPOLLHUP;
    return events;
}

static int interface_event(struct notifier_block *block, unsigned long event, void *data) {
    struct net_device *device = netdev_notifier_info_to_dev(data);
    struct ring *ring, *next;

    if (event != NETDEV_UNREGISTER)
        return NOTIFY_DONE;
    mutex_lock(&rings_lock);
    list_for_each_entry_safe(ring, next, &rings, entry) {
        if (ring->device != device)
            continue;
        let_go(ring);
        WRITE_ONCE(ring->gone, true);
        wake_up_interruptible(&ring->readers);
    }
    mutex_unlock(&rings_lock);
    return NOTIFY_DONE;
}

static struct notifier_block interfaces = {.notifier_call = interface_event};

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .unlocked_ioctl = device_ioctl,
    .mmap = device_mmap,
    /* Huge pages need an address that is a multiple of their size. */
    .get_unmapped_area = thp_get_unmapped_area,
    .poll = device_poll,
    .llseek = no_llseek,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "twinring",
    .fops = &operations,
    .mode = 0600,
};

static int __init device_init(void) {
    int error = register_netdevice_notifier(&interfaces);

    if (error)
        return error;
    error = misc_register(&device);
    if (error)
        unregister_netdevice_notifier(&interfaces);
    return error;
}

static void __exit device_exit(void) {
    misc_deregister(&device);
    unregister_netdevice_notifier(&interfaces);
}

module_init(device_init);
module_exit(device_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Packets in a ring of pages by policy, for the lab of Twinwall");
