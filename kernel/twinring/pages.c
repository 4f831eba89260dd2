// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The policies: allocation of a ring's memory, and its mapping into the program.
 */
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/pfn_t.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "twinring.h"

#define BLOCK_ORDER (21 - PAGE_SHIFT)
#define BLOCK_PAGES (1U << BLOCK_ORDER)

static bool is_users(const struct ring *ring) {
    return ring->policy == TWINWALL_RING_HUGETLB || ring->policy == TWINWALL_RING_BOTH;
}

static bool is_vmalloc(const struct ring *ring) {
    return ring->policy == TWINWALL_RING_VZALLOC || ring->policy == TWINWALL_RING_VMALLOC_HUGE;
}

static void free_blocks(struct ring *ring) {
    unsigned int i;

    for (i = 0; i < ring->blocks; i++)
        if (ring->block[i])
            free_pages((unsigned long)ring->block[i], BLOCK_ORDER);
}

/* Allocates each block separately, in contiguous pages. */
static int make_blocks(struct ring *ring, gfp_t flags) {
    unsigned int i;

    for (i = 0; i < ring->blocks; i++) {
        ring->block[i] =
            (void *)__get_free_pages(flags | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN, BLOCK_ORDER);
        if (!ring->block[i]) {
            free_blocks(ring);
            memset(ring->block, 0, ring->blocks * sizeof(*ring->block));
            return -ENOMEM;
        }
    }
    return 0;
}

/* Sets the blocks' addresses within the area. Returns -ENOMEM without an area. */
static int divide(struct ring *ring) {
    unsigned int i;

    if (!ring->area)
        return -ENOMEM;
    for (i = 0; i < ring->blocks; i++)
        ring->block[i] = ring->area + (size_t)i * TWINWALL_RING_BLOCK;
    return 0;
}

static size_t bytes_of(const struct ring *ring) {
    return (size_t)ring->blocks * TWINWALL_RING_BLOCK;
}

static int make_vzalloc(struct ring *ring) {
    ring->area = vzalloc(bytes_of(ring));
    return divide(ring);
}

/* Allocates like AF_PACKET. Sets the policy to the step that succeeded. */
static int make_rx_ring(struct ring *ring) {
    ring->policy = TWINWALL_RING_GFPNORETRY;
    if (make_blocks(ring, GFP_KERNEL | __GFP_NORETRY) == 0)
        return 0;
    ring->policy = TWINWALL_RING_VZALLOC;
    if (make_vzalloc(ring) == 0)
        return 0;
    ring->policy = TWINWALL_RING_GFPRETRY;
    return make_blocks(ring, GFP_KERNEL);
}

/* Returns true if each block is contiguous within one huge page. */
static bool are_huge(const struct ring *ring) {
    unsigned int i;

    for (i = 0; i < ring->blocks; i++) {
        struct page *first = ring->pinned[i * BLOCK_PAGES];

        if (!PageCompound(first) || compound_head(first) != first ||
            compound_order(first) < BLOCK_ORDER)
            return false;
    }
    return true;
}

static int map_pinned(struct ring *ring) {
    unsigned int i;

    if (!are_huge(ring))
        return -EINVAL;
    if (ring->policy == TWINWALL_RING_HUGETLB) {
        ring->area = vm_map_ram(ring->pinned, ring->blocks * BLOCK_PAGES, NUMA_NO_NODE);
        return divide(ring);
    }
    for (i = 0; i < ring->blocks; i++)
        ring->block[i] = page_address(ring->pinned[i * BLOCK_PAGES]);
    return 0;
}

static void unpin(struct ring *ring, unsigned int count) {
    if (!HAS_FLAW(PINS_KEPT))
        unpin_user_pages_dirty_lock(ring->pinned, count, true);
    kvfree(ring->pinned);
    ring->pinned = NULL;
}

static int make_users(struct ring *ring, u64 address) {
    unsigned int count = ring->blocks * BLOCK_PAGES;
    int got, error;

    if (address % TWINWALL_RING_BLOCK || address > TASK_SIZE_MAX - bytes_of(ring))
        return -EINVAL;
    ring->pinned = kvcalloc(count, sizeof(*ring->pinned), GFP_KERNEL);
    if (!ring->pinned)
        return -ENOMEM;
    got = pin_user_pages_fast(address, count, FOLL_WRITE | FOLL_LONGTERM, ring->pinned);
    if (got != count) {
        unpin(ring, max(got, 0));
        return got < 0 ? got : -EFAULT;
    }
    error = map_pinned(ring);
    if (error)
        unpin(ring, count);
    return error;
}

static int make_by_policy(struct ring *ring, const struct twinwall_ring_setup *setup) {
    switch (ring->policy) {
    case TWINWALL_RING_RX_RING:
        return make_rx_ring(ring);
    case TWINWALL_RING_GFPNORETRY:
        return make_blocks(ring, GFP_KERNEL | __GFP_NORETRY);
    case TWINWALL_RING_VZALLOC:
        return make_vzalloc(ring);
    case TWINWALL_RING_GFPRETRY:
    case TWINWALL_RING_DAX:
        return make_blocks(ring, GFP_KERNEL);
    case TWINWALL_RING_TRANSHUGE:
        return make_blocks(ring, GFP_TRANSHUGE & ~(__GFP_HIGHMEM | __GFP_MOVABLE));
    case TWINWALL_RING_HUGETLB:
    case TWINWALL_RING_BOTH:
        return make_users(ring, setup->address);
    case TWINWALL_RING_VMALLOC_HUGE:
        ring->area = vmalloc_huge(bytes_of(ring), GFP_KERNEL | __GFP_ZERO);
        return divide(ring);
    }
    return -EINVAL;
}

/* Makes the blocks of a ring: allocates them zeroed, or pins the program's pages and zeroes only
 * the block headers. Returns 0, or -errno with nothing allocated. */
int pages_make(struct ring *ring, const struct twinwall_ring_setup *setup) {
    int error;
    unsigned int i;

    ring->policy = setup->policy;
    ring->blocks = setup->blocks;
    ring->block = kcalloc(ring->blocks, sizeof(*ring->block), GFP_KERNEL);
    error = ring->block ? make_by_policy(ring, setup) : -ENOMEM;
    if (error) {
        kfree(ring->block);
        ring->block = NULL;
        ring->blocks = 0;
        return error;
    }
    for (i = 0; is_users(ring) && i < ring->blocks; i++)
        memset(ring->block[i], 0, sizeof(struct tpacket_block_desc));
    return 0;
}

/* Frees the memory of pages_make, if any. Nothing may use it any more. */
void pages_free(struct ring *ring) {
    if (!ring->blocks)
        return;
    if (ring->policy == TWINWALL_RING_HUGETLB)
        vm_unmap_ram(ring->area, ring->blocks * BLOCK_PAGES);
    if (is_users(ring))
        unpin(ring, ring->blocks * BLOCK_PAGES);
    else if (is_vmalloc(ring))
        vfree(ring->area);
    else
        free_blocks(ring);
    kfree(ring->block);
    ring->blocks = 0;
}

/* Maps page by page, like AF_PACKET. */
static int map_small(struct ring *ring, struct vm_area_struct *area) {
    unsigned long address = area->vm_start, offset;
    unsigned int i;
    int error;

    for (i = 0; i < ring->blocks; i++)
        for (offset = 0; offset < TWINWALL_RING_BLOCK; offset += PAGE_SIZE) {
            void *at = ring->block[i] + offset;
            struct page *page = is_vmalloc(ring) ? vmalloc_to_page(at) : virt_to_page(at);

            error = vm_insert_page(area, address, page);
            if (error)
                return error;
            address += PAGE_SIZE;
        }
    return 0;
}

/* Returns the first page frame of the block at a fault's address; 0 beyond the blocks. */
static unsigned long frame_of(struct vm_fault *fault) {
    struct ring *ring = fault->vma->vm_file->private_data;
    unsigned long block = fault->pgoff >> BLOCK_ORDER;

    return block < ring->blocks ? page_to_pfn(virt_to_page(ring->block[block])) : 0;
}

static vm_fault_t dax_fault(struct vm_fault *fault) {
    unsigned long frame = frame_of(fault);

    if (!frame)
        return VM_FAULT_SIGBUS;
    return vmf_insert_pfn(fault->vma, fault->address, frame + fault->pgoff % BLOCK_PAGES);
}

static vm_fault_t dax_huge_fault(struct vm_fault *fault, enum page_entry_size size) {
    unsigned long begin = fault->address & PMD_MASK, frame = frame_of(fault);

    if (!frame)
        return VM_FAULT_SIGBUS;
    if (size != PE_SIZE_PMD || begin < fault->vma->vm_start ||
        begin + PMD_SIZE > fault->vma->vm_end)
        return VM_FAULT_FALLBACK;
    return vmf_insert_pfn_pmd(fault, pfn_to_pfn_t(frame), fault->flags & FAULT_FLAG_WRITE);
}

static const struct vm_operations_struct dax_operations = {
    .fault = dax_fault,
    .huge_fault = dax_huge_fault,
};

/* huge_fault is only called for inodes with S_DAX, which has no other meaning for a device. */
static int map_dax(struct file *file, struct vm_area_struct *area) {
    if (area->vm_start % PMD_SIZE)
        return -EINVAL;
    inode_lock(file_inode(file));
    inode_set_flags(file_inode(file), HAS_FLAW(NO_DAX) ? 0 : S_DAX, S_DAX);
    inode_unlock(file_inode(file));
    area->vm_flags |= VM_PFNMAP;
    area->vm_ops = &dax_operations;
    return 0;
}

/* Maps the whole ring, or refuses. */
int pages_map(struct ring *ring, struct file *file, struct vm_area_struct *area) {
    if (!ring->blocks || is_users(ring))
        return -ENODEV;
    if (area->vm_pgoff || area->vm_end - area->vm_start != bytes_of(ring) ||
        !(area->vm_flags & VM_SHARED))
        return -EINVAL;
    /* A forked child would inherit the mapping without being the reader. */
    area->vm_flags |= VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
    return ring->policy == TWINWALL_RING_DAX ? map_dax(file, area) : map_small(ring, area);
}
