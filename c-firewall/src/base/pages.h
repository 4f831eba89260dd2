// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for tables that may be large and are read anywhere: of huge pages, if the kernel has some.
//
// A read of memory that is in no cache waits for the page tables, too, if there are more pages than
// the processor keeps in mind; in a virtual machine these are two sets of page tables.
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/// Bytes that memory for so many has: whole pages.
size_t pages_round(size_t bytes);

/// Makes memory of so many bytes, all zero; to be freed with as many. NULL if there is none.
uint8_t *pages_make(size_t bytes);

/// Frees memory; NULL is none.
void pages_free(uint8_t *memory, size_t bytes);

/// The word that begins at a byte.
uint64_t pages_word(const uint8_t *memory, size_t at);

/// Sets the word that begins at a byte.
void pages_set_word(uint8_t *memory, size_t at, uint64_t word);

#endif
