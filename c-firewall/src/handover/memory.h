// SPDX-License-Identifier: GPL-2.0-or-later
// What one process passes to another whole: memory behind a descriptor (memfd_create) that is
// sealed when it has been written, so that who has it reads what was meant, however often and
// slowly.
#ifndef HANDOVER_MEMORY_H
#define HANDOVER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    HANDOVER_MEMORY_STEP_BYTES = 65536, // the bytes that are written at a time
};

/// Memory that is being written.
struct handover_memory {
    int fd;        // -1 = closed
    uint64_t at;   // offset in the file at which the gathered bytes go
    size_t filled; // of what is gathered, not written yet
    uint8_t bytes[HANDOVER_MEMORY_STEP_BYTES];
};

/// Memory that another process has passed.
struct handover_sealed {
    int fd;        // -1 = closed
    uint64_t size; // its size in bytes, which nobody can change
};

/// Makes memory of no bytes. Returns 0, or -errno with it closed.
int handover_memory_make(struct handover_memory *memory);

/// Appends bytes. Returns 0 or -errno.
int handover_memory_put(struct handover_memory *memory, const void *bytes, size_t length);

/// Appends a number, as little-endian bytes. Returns 0 or -errno.
int handover_memory_put_number(struct handover_memory *memory, uint64_t number);

/// Reserves room for so many bytes, so that writing them need not.
/// - Returns 0 or -errno.
int handover_memory_reserve(struct handover_memory *memory, uint64_t size);

/// Writes the rest. From now on nobody can change it. Returns 0 or -errno.
int handover_memory_seal(struct handover_memory *memory);

/// Closed it can be given as well.
void handover_memory_close(struct handover_memory *memory);

/// Checks the memory that another process has passed.
/// - fd: belongs to it from now on; it is closed after a failure.
/// - Returns 0, or -errno: -EPROTO if it is no sealed memory, or larger than max.
int handover_sealed_open(struct handover_sealed *sealed, int fd, uint64_t max);

/// Reads all of it, to be freed. Returns 0 or -errno.
int handover_sealed_read(const struct handover_sealed *sealed, uint8_t **read);

/// Closed it can be given as well.
void handover_sealed_close(struct handover_sealed *sealed);

#endif
