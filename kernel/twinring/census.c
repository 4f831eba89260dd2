// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The census: counts the page-table entries of a ring, on the kernel's and the program's side.
 * x86-64 only.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "twinring.h"

static void count(struct twinwall_ring_pages *pages, unsigned long size) {
    if (size == PAGE_SIZE)
        pages->small++;
    else if (size == PMD_SIZE)
        pages->huge++;
    else
        pages->giant++;
}

/* Counts the kernel's entries; an entry that maps several successive blocks counts once. */
void census_kernel(const struct ring *ring, struct twinwall_ring_pages *pages) {
    unsigned long last_begin = 0, last_size = 0;
    unsigned int i;

    for (i = 0; i < ring->blocks; i++) {
        unsigned long at = (unsigned long)ring->block[i], end = at + TWINWALL_RING_BLOCK;

        while (at < end) {
            unsigned int level;
            pte_t *entry = lookup_address(at, &level);
            unsigned long size;

            if (!entry) {
                pages->none++;
                at += PAGE_SIZE;
                continue;
            }
            size = level == PG_LEVEL_4K ? PAGE_SIZE : level == PG_LEVEL_2M ? PMD_SIZE : PUD_SIZE;
            if ((at & ~(size - 1)) != last_begin || size != last_size)
                count(pages, size);
            last_begin = at & ~(size - 1);
            last_size = size;
            at = last_begin + size;
        }
    }
}

/* Returns the bytes mapped by the entry for an address; 0 without an entry. The caller holds the
 * mm's lock. */
static unsigned long user_entry(struct mm_struct *mm, unsigned long address) {
    pgd_t *pgd = pgd_offset(mm, address);
    p4d_t *p4d;
    pud_t *pud;
    pmd_t *pmd;
    pte_t *pte;
    bool present;

    if (pgd_none(*pgd))
        return 0;
    p4d = p4d_offset(pgd, address);
    if (p4d_none(*p4d))
        return 0;
    pud = pud_offset(p4d, address);
    if (pud_none(*pud))
        return 0;
    if (pud_large(*pud))
        return PUD_SIZE;
    pmd = pmd_offset(pud, address);
    if (pmd_none(*pmd) || !pmd_present(*pmd))
        return 0;
    if (pmd_large(*pmd))
        return PMD_SIZE;
    pte = pte_offset_map(pmd, address);
    present = pte_present(*pte);
    pte_unmap(pte);
    return present ? PAGE_SIZE : 0;
}

/* Counts the caller's entries of a range. The mm is locked for writing, so that no table is freed
 * or collapsed meanwhile. */
void census_user(unsigned long address, unsigned long bytes, struct twinwall_ring_pages *pages) {
    struct mm_struct *mm = current->mm;
    unsigned long at = address;

    mmap_write_lock(mm);
    while (at < address + bytes) {
        unsigned long size = user_entry(mm, at);

        if (size)
            count(pages, size);
        else
            pages->none++;
        size = size ? size : PAGE_SIZE;
        at = (at & ~(size - 1)) + size;
    }
    mmap_write_unlock(mm);
}
