/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * /dev/twinring: packets in a ring of blocks as TPACKET_V3 has them (<linux/if_packet.h>), of pages
 * that a policy chooses. What kernel and programs agree on. Only who has CAP_NET_RAW opens it.
 *
 * Set up once (SETUP), then map: the blocks one after the other, at offset 0, shared. With the
 * policies HUGETLB and BOTH the memory is the program's own. poll: EPOLLIN, the block filled last
 * is not given back; EPOLLERR and EPOLLHUP, the interface is gone.
 */
#ifndef TWINWALL_RING_H
#define TWINWALL_RING_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TWINWALL_RING_PATH "/dev/twinring"

/* A block is so long: a huge page, so that no page of a block can be somebody else's. */
#define TWINWALL_RING_BLOCK (2 << 20)
#define TWINWALL_RING_BLOCKS_MOST 256

enum twinwall_ring_policy {
    /* As AF_PACKET does: GFPNORETRY, else VZALLOC, else GFPRETRY. */
    TWINWALL_RING_RX_RING,
    TWINWALL_RING_GFPNORETRY, /* __get_free_pages with __GFP_NORETRY */
    TWINWALL_RING_VZALLOC,
    TWINWALL_RING_GFPRETRY,  /* __get_free_pages without __GFP_NORETRY */
    TWINWALL_RING_TRANSHUGE, /* __get_free_pages with GFP_TRANSHUGE */
    TWINWALL_RING_HUGETLB,   /* pages of the program's, mapped here by vm_map_ram */
    /* Beyond the published ones: */
    TWINWALL_RING_BOTH,         /* huge pages of the program's, by the kernel's direct map */
    TWINWALL_RING_DAX,          /* order-9 pages, mapped by huge_fault */
    TWINWALL_RING_VMALLOC_HUGE, /* vmalloc_huge */
    TWINWALL_RING_POLICIES,
};

struct twinwall_ring_setup {
    __u32 policy;
    __u32 blocks;     /* 2 to TWINWALL_RING_BLOCKS_MOST */
    __u32 interface;  /* its index in the caller's network namespace */
    __u32 snap_bytes; /* of each packet, at most so many */
    __u32 timeout_ms; /* after so long a block is given that is not full */
    __u32 steps;      /* of the filter; 0: none */
    __u64 filter;     /* struct sock_filter[steps] */
    __u64 address;    /* HUGETLB, BOTH: of the program's memory, a multiple of a block */
};

/* What passed the filter, and what of it found no room, since the setup. */
struct twinwall_ring_statistics {
    __u64 packets;
    __u64 drops;
};

/* Page-table entries, by the bytes that they are for; `none`: small pages of which there is none.
 */
struct twinwall_ring_pages {
    __u64 small;
    __u64 huge;  /* 2 MiB */
    __u64 giant; /* 1 GiB */
    __u64 none;
};

/* Counts the entries under the ring: the kernel's, and those of the caller's from an address on. */
struct twinwall_ring_census {
    __u64 address;
    struct twinwall_ring_pages kernel;
    struct twinwall_ring_pages user;
};

#define TWINWALL_RING_SETUP _IOW(0xd6, 1, struct twinwall_ring_setup)
#define TWINWALL_RING_STATISTICS _IOR(0xd6, 2, struct twinwall_ring_statistics)
#define TWINWALL_RING_CENSUS _IOWR(0xd6, 3, struct twinwall_ring_census)
/* Hears nothing any more; what came is given. */
#define TWINWALL_RING_STOP _IO(0xd6, 4)

#endif
