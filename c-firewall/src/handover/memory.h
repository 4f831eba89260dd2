// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that one process passes to another: an anonymous file (memfd_create) that is sealed after
// writing. So the reader can read it repeatedly, at any speed, and always finds the same bytes.
#ifndef HANDOVER_MEMORY_H
#define HANDOVER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    HANDOVER_MEMORY_STEP_BYTES = 65536, // size of a memory file's write buffer, in bytes
};

/// Memory file (memfd) that this process writes and then seals, with its write buffer.
struct handover_memory {
    int fd;        // descriptor of the memory; -1 = closed
    uint64_t at;   // offset in the file at which the buffered bytes are written next
    size_t filled; // number of buffered bytes that are not written yet
    uint8_t bytes[HANDOVER_MEMORY_STEP_BYTES];
};

/// Sealed memory from another process.
struct handover_sealed {
    int fd;        // descriptor of the memory; -1 = closed
    uint64_t size; // size in bytes, which the seals keep constant
};

/// Creates an empty memory file (memfd), to be written and sealed. Returns 0, or -errno with the
/// memory closed.
int handover_memory_make(struct handover_memory *memory);

/// Appends bytes, which may stay in the buffer. Returns 0 or -errno.
int handover_memory_append(struct handover_memory *memory, const void *bytes, size_t length);

/// Appends a number in little-endian order. Returns 0 or -errno.
int handover_memory_append_number(struct handover_memory *memory, uint64_t number);

/// Writes `size` zero bytes to an empty memory file, so that later writes, which overwrite them
/// from the start, allocate nothing.
/// - Returns 0 or -errno.
int handover_memory_reserve(struct handover_memory *memory, uint64_t size);

/// Writes the buffered bytes and seals the memory: nothing can change it any more. Returns 0 or
/// -errno.
int handover_memory_seal(struct handover_memory *memory);

/// Closes the memory's descriptor. Closed memory is allowed.
void handover_memory_close(struct handover_memory *memory);

/// Checks memory from another process.
/// - fd: owned by *sealed from now on; closed on failure.
/// - Returns 0, or -errno: -EPROTO if it is not sealed memory, or larger than max.
int handover_sealed_open(struct handover_sealed *sealed, int fd, uint64_t max);

/// Reads the whole memory; the caller frees *read. Returns 0 or -errno.
/// - read: out: the bytes.
int handover_sealed_read(const struct handover_sealed *sealed, uint8_t **read);

/// Closes the memory's descriptor. Closed memory is allowed.
void handover_sealed_close(struct handover_sealed *sealed);

#endif
