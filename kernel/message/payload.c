// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The bytes of a message. Small and one-way messages are copied into the kernel and out again; the
 * rest is pinned in place, and copied once, directly between the two processes.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "message.h"

/* Maximum number of pages pinned per call. */
#define BATCH_PAGES 16

/* Length from which one copy of pinned pages needs fewer instructions than two copies: between 2048
 * and 4096. */
static unsigned int pin_bytes = 3072;
module_param(pin_bytes, uint, 0644);
MODULE_PARM_DESC(pin_bytes,
                 "messages over this many bytes are pinned, and copied once; others twice");

/* Imports the parts of a message. -EMSGSIZE: more than TWINWALL_MESSAGE_PARTS_MOST parts or
 * TWINWALL_MESSAGE_BYTES_MOST bytes. */
int parts_import(u64 address, u32 count, int direction, struct iovec *parts,
                 struct iov_iter *iter) {
    struct iovec *given = parts;
    ssize_t length;

    BUILD_BUG_ON(sizeof(struct twinwall_part) != sizeof(struct iovec));
    if (count > TWINWALL_MESSAGE_PARTS_MOST)
        return -EMSGSIZE;
    length = import_iovec(direction, u64_to_user_ptr(address), count, TWINWALL_MESSAGE_PARTS_MOST,
                          &given, iter);
    if (length < 0)
        return length;
    if (length > TWINWALL_MESSAGE_BYTES_MOST && !HAS_FLAW(BYTES_UNLIMITED))
        return -EMSGSIZE;
    return 0;
}

/* Charges the pages to the user (RLIMIT_MEMLOCK) while the message is in transit. */
static int charge(struct payload *payload, unsigned long pages) {
    struct user_struct *user = current_user();
    unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

    if (HAS_FLAW(MEMLOCK_IGNORED))
        return 0;
    if (atomic_long_add_return(pages, &user->locked_vm) > limit && !capable(CAP_IPC_LOCK)) {
        atomic_long_sub(pages, &user->locked_vm);
        return -ENOBUFS;
    }
    payload->charged = get_uid(user);
    payload->charged_pages = pages;
    return 0;
}

static void refund(struct payload *payload) {
    if (!payload->charged)
        return;
    atomic_long_sub(payload->charged_pages, &payload->charged->locked_vm);
    free_uid(payload->charged);
    payload->charged = NULL;
}

/* Unpins pages. Written pages are marked dirty, since they may belong to a file. */
void payload_unpin(struct payload *payload) {
    unsigned int i;

    if (!payload->pieces)
        return;
    for (i = 0; i < payload->piece_count; i++)
        unpin_user_pages_dirty_lock(&payload->pieces[i].bv_page, 1,
                                    i < payload->dirty_count && !HAS_FLAW(CLEAN_PAGES));
    kvfree(payload->pieces);
    payload->pieces = NULL;
    payload->piece_count = 0;
    refund(payload);
}

void payload_free(struct payload *payload, const u8 *small) {
    payload_unpin(payload);
    if (payload->bytes != small)
        kvfree(payload->bytes);
    payload->bytes = NULL;
    refund(payload);
}

static unsigned long pages_of(const struct iovec *part) {
    unsigned long offset = offset_in_page(part->iov_base);

    return part->iov_len ? DIV_ROUND_UP(offset + part->iov_len, PAGE_SIZE) : 0;
}

/* Pins one part. Pages pinned so far are in `pieces`, also after an error. */
static int pin_part(struct payload *payload, const struct iovec *part, unsigned int flags) {
    unsigned long address = (unsigned long)part->iov_base;
    unsigned long end = address + part->iov_len;
    struct page *pages[BATCH_PAGES];

    while (address < end) {
        unsigned long wanted = DIV_ROUND_UP(offset_in_page(address) + (end - address), PAGE_SIZE);
        int pinned = pin_user_pages_fast(address & PAGE_MASK,
                                         min_t(unsigned long, wanted, BATCH_PAGES), flags, pages);
        int i;

        if (HAS_FLAW(SOURCE_WRITABLE))
            BUG_ON(pinned < 0);
        if (pinned <= 0)
            return pinned ?: -EFAULT;
        for (i = 0; i < pinned; i++) {
            unsigned int offset = offset_in_page(address);
            unsigned int length = min_t(unsigned long, PAGE_SIZE - offset, end - address);

            payload->pieces[payload->piece_count++] =
                (struct bio_vec){.bv_page = pages[i], .bv_len = length, .bv_offset = offset};
            address += length;
        }
    }
    return 0;
}

/* Pins all parts while their owner waits; FOLL_LONGTERM, since that may be long. */
static int pin(struct payload *payload, const struct iov_iter *iter, unsigned int flags) {
    unsigned long pages = 0, i;
    int error;

    for (i = 0; i < iter->nr_segs; i++)
        pages += pages_of(&iter->iov[i]);
    error = charge(payload, pages);
    if (error)
        return error;
    payload->pieces = kvmalloc_array(pages, sizeof(*payload->pieces), GFP_KERNEL_ACCOUNT);
    if (!payload->pieces)
        return -ENOMEM;
    for (i = 0; i < iter->nr_segs; i++) {
        error = pin_part(payload, &iter->iov[i], flags | FOLL_LONGTERM);
        if (error)
            return error;
    }
    return 0;
}

/* Copies all of `from` to `small` or to allocated memory, which is charged to the user if
 * `charged`. */
static int copy(struct payload *payload, struct iov_iter *from, u8 *small, bool charged) {
    size_t length = iov_iter_count(from);
    int error;

    payload->bytes = small;
    if (length > SMALL_BYTES) {
        error = charged ? charge(payload, DIV_ROUND_UP(length, PAGE_SIZE)) : 0;
        if (error)
            return error;
        payload->bytes = kvmalloc(length, GFP_KERNEL_ACCOUNT);
        if (!payload->bytes)
            return -ENOMEM;
    }
    if (copy_from_iter(payload->bytes, length, from) != length) {
        payload_free(payload, small);
        return -EFAULT;
    }
    payload->length = length;
    return 0;
}

/* Imports a request from its caller. After an error payload_free must still be called. */
int payload_of_request(struct payload *payload, struct iov_iter *from, bool one_way, u8 *small) {
    size_t length = iov_iter_count(from);

    if (one_way && length > TWINWALL_MESSAGE_ONE_WAY_MOST)
        return -EMSGSIZE;
    if (one_way || length <= max_t(size_t, pin_bytes, SMALL_BYTES))
        return copy(payload, from, small, true);
    payload->length = length;
    /* Not for writing: a request may be in memory that its owner can only read. */
    return pin(payload, from, HAS_FLAW(SOURCE_WRITABLE) ? FOLL_WRITE : 0);
}

/* Pins a caller's room for an answer. Small room isn't pinned: such an answer is copied. */
int payload_of_room(struct payload *payload, struct iov_iter *to) {
    if (iov_iter_count(to) <= max_t(size_t, pin_bytes, SMALL_BYTES))
        return 0;
    return pin(payload, to, FOLL_WRITE);
}

/* Copies an answer of the server for a caller whose room isn't pinned. Not charged, since the
 * caller waits for it. */
int payload_of_answer(struct payload *payload, struct iov_iter *from, u8 *small) {
    return copy(payload, from, small, false);
}

/* Copies the payload to the user, as far as it fits in `to`. */
int payload_to_user(const struct payload *payload, struct iov_iter *to) {
    size_t wanted = min(payload->length, iov_iter_count(to));
    unsigned int i;

    if (!payload->pieces)
        return copy_to_iter(payload->bytes, wanted, to) == wanted ? 0 : -EFAULT;
    for (i = 0; wanted > 0; i++) {
        const struct bio_vec *piece = &payload->pieces[i];
        size_t length = min_t(size_t, piece->bv_len, wanted);

        if (copy_page_to_iter(piece->bv_page, piece->bv_offset, length, to) != length)
            return -EFAULT;
        wanted -= length;
    }
    return 0;
}
