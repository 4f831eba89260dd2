// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for large tables with random access: in huge pages, if the kernel has free ones.
//
// An access to memory that is in no cache also waits for the page tables, if the memory has more
// pages than the processor's cache of page addresses (TLB) holds; in a virtual machine there are
// two levels of page tables.
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/// Returns the size of memory for this many bytes, rounded up to whole pages; from 2 MiB on, to
/// whole huge pages.
size_t pages_round(size_t bytes);

/// Allocates zeroed memory for at least this many bytes, which pages_free frees with the same size.
/// Returns NULL if there is no memory.
uint8_t *pages_make(size_t bytes);

/// Frees memory. NULL is allowed.
void pages_free(uint8_t *memory, size_t bytes);

/// Returns the 64-bit word (in the processor's byte order) at a byte offset, which is not checked.
uint64_t pages_word(const uint8_t *memory, size_t at);

/// Sets the 64-bit word (in the processor's byte order) at a byte offset, which is not checked.
void pages_set_word(uint8_t *memory, size_t at, uint64_t word);

#endif
