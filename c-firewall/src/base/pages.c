// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: mmap munmap madvise
#include "base/pages.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PAGE_BYTES = 4 << 10,
    HUGE_BYTES = 2 << 20,
};

size_t pages_round(size_t bytes) {
    const size_t page = bytes < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES;

    return (bytes + page - 1) / page * page;
}

uint8_t *pages_make(size_t bytes) {
    const size_t whole = pages_round(bytes);
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    // An error is ignored: without huge pages the memory is only slower.
    if (whole >= HUGE_BYTES)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}

void pages_free(uint8_t *memory, size_t bytes) {
    if (memory)
        munmap(memory, pages_round(bytes));
}

uint64_t pages_word(const uint8_t *memory, size_t at) {
    uint64_t word;

    memcpy(&word, memory + at, sizeof word);
    return word;
}

void pages_set_word(uint8_t *memory, size_t at, uint64_t word) {
    memcpy(memory + at, &word, sizeof word);
}
