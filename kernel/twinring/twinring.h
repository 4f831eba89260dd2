/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the module's files. */
#ifndef TWINRING_H
#define TWINRING_H

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/mm.h>
#include <linux/netdevice.h>

#include "flaw.h"
#include "twinwall_ring.h"

/* State of an open file. */
struct ring {
    /* Serializes ioctls, mapping and poll. */
    struct mutex lock;
    unsigned int policy; /* the policy in effect; after the setup never RX_RING */
    unsigned int blocks; /* number of blocks; 0: not set up */
    void **block;        /* the kernel's address of each block */
    void *area;          /* all blocks in one mapping, by vmalloc or vm_map_ram */
    struct page **pinned;
    struct list_head entry; /* in `rings`, while attached to an interface */
    struct net_device *device;
    struct packet_type hook;
    struct bpf_prog *filter;
    unsigned int snap_bytes;
    unsigned int timeout_ms;
    wait_queue_head_t readers;
    bool gone;
    /* State of the packet path. The program can modify the content of a block, so only its status
     * is read there. */
    spinlock_t fill;
    struct timer_list timer;
    unsigned int current_block;
    unsigned int next; /* offset of the next packet; 0: the block is not begun */
    unsigned int last; /* offset of the previous packet */
    unsigned int count;
    u64 sequence;
    u64 timed; /* sequence number of the block for which the timer was set */
    struct timespec64 first_time;
    u64 packets;
    u64 drops;
    bool losing; /* drops since the last passed block */
};

/* pages.c */
int pages_make(struct ring *ring, const struct twinwall_ring_setup *setup);
void pages_free(struct ring *ring);
int pages_map(struct ring *ring, struct file *file, struct vm_area_struct *area);

/* census.c */
void census_kernel(const struct ring *ring, struct twinwall_ring_pages *pages);
void census_user(unsigned long address, unsigned long bytes, struct twinwall_ring_pages *pages);

/* fill.c */
void fill_init(struct ring *ring);
int fill_packet(struct sk_buff *skb, struct net_device *device, struct packet_type *hook,
                struct net_device *original);
void fill_flush(struct ring *ring);
bool fill_is_readable(struct ring *ring);

#endif
