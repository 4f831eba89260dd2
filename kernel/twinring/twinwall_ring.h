/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * /dev/twinring: packets in a ring of TPACKET_V3 blocks (<linux/if_packet.h>), in pages that a
 * policy chooses; the user interface. Opening needs CAP_NET_RAW.
 *
 * Set up once (SETUP), then map the blocks: contiguous, at offset 0, shared. With the policies
 * HUGETLB and BOTH the memory belongs to the program. poll: EPOLLIN, the block filled last is not
 * returned yet; EPOLLERR and EPOLLHUP, the interface is gone.
 */
#ifndef TWINWALL_RING_H
#define TWINWALL_RING_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TWINWALL_RING_PATH "/dev/twinring"

/* Block size: a huge page, so that no page contains parts of two blocks or other data. */
#define TWINWALL_RING_BLOCK (2 << 20)
#define TWINWALL_RING_BLOCKS_MOST 256

enum twinwall_ring_policy {
    /* Like AF_PACKET: GFPNORETRY, otherwise VZALLOC, otherwise GFPRETRY. */
    TWINWALL_RING_RX_RING,
    TWINWALL_RING_GFPNORETRY, /* __get_free_pages with __GFP_NORETRY */
    TWINWALL_RING_VZALLOC,
    TWINWALL_RING_GFPRETRY,  /* __get_free_pages without __GFP_NORETRY */
    TWINWALL_RING_TRANSHUGE, /* __get_free_pages with GFP_TRANSHUGE */
    TWINWALL_RING_HUGETLB,   /* the program's pages, mapped into the kernel by vm_map_ram */
    /* Policies beyond the published ones: */
    TWINWALL_RING_BOTH,         /* the program's huge pages, through the kernel's direct map */
    TWINWALL_RING_DAX,          /* order-9 pages, mapped by huge_fault */
    TWINWALL_RING_VMALLOC_HUGE, /* vmalloc_huge */
    TWINWALL_RING_POLICIES,
};

struct twinwall_ring_setup {
    __u32 policy;
    __u32 blocks;     /* 2 to TWINWALL_RING_BLOCKS_MOST */
    __u32 interface;  /* index of an interface in the caller's network namespace */
    __u32 snap_bytes; /* maximum bytes of each packet */
    __u32 timeout_ms; /* time after which a block that is not full is passed on */
    __u32 steps;      /* number of filter instructions; 0: none */
    __u64 filter;     /* address of struct sock_filter[steps] */
    __u64 address;    /* HUGETLB, BOTH: address of the program's memory, a multiple of a block */
};

/* Packets that passed the filter, and those of them that found no room, since the setup. */
struct twinwall_ring_statistics {
    __u64 packets;
    __u64 drops;
};

/* Page-table entries by size; `none`: small pages without an entry. */
struct twinwall_ring_pages {
    __u64 small;
    __u64 huge;  /* 2 MiB */
    __u64 giant; /* 1 GiB */
    __u64 none;
};

/* Page-table entries of the ring: the kernel's, and the caller's from `address` on. */
struct twinwall_ring_census {
    __u64 address;
    struct twinwall_ring_pages kernel;
    struct twinwall_ring_pages user;
};

#define TWINWALL_RING_SETUP _IOW(0xd6, 1, struct twinwall_ring_setup)
#define TWINWALL_RING_STATISTICS _IOR(0xd6, 2, struct twinwall_ring_statistics)
#define TWINWALL_RING_CENSUS _IOWR(0xd6, 3, struct twinwall_ring_census)
/* Detaches from the interface; the last block is passed on. */
#define TWINWALL_RING_STOP _IO(0xd6, 4)

#endif
