// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: memfd_create pwrite64 pread64 fcntl fstat close
#include "handover/memory.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
};

int handover_memory_make(struct handover_memory *memory) {
    memory->at = 0;
    memory->filled = 0;
    memory->fd = memfd_create("twinwall", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return memory->fd < 0 ? -errno : 0;
}

/// Writes the buffered bytes to the file. Returns 0 or -errno.
static int flush(struct handover_memory *memory) {
    size_t done = 0;

    while (done < memory->filled) {
        const ssize_t written =
            pwrite(memory->fd, memory->bytes + done, memory->filled - done, (off_t)memory->at);

        if (written < 0 && errno != EINTR)
            return -errno;
        done += written > 0 ? (size_t)written : 0;
        memory->at += written > 0 ? (uint64_t)written : 0;
    }
    memory->filled = 0;
    return 0;
}

int handover_memory_append(struct handover_memory *memory, const void *bytes, size_t length) {
    const uint8_t *left = bytes;

    while (length > 0) {
        const size_t part =
            length < HANDOVER_MEMORY_STEP_BYTES ? length : HANDOVER_MEMORY_STEP_BYTES;
        int result = 0;

        if (memory->filled + part > HANDOVER_MEMORY_STEP_BYTES)
            result = flush(memory);
        if (result < 0)
            return result;
        memcpy(memory->bytes + memory->filled, left, part);
        memory->filled += part;
        left += part;
        length -= part;
    }
    return 0;
}

int handover_memory_append_number(struct handover_memory *memory, uint64_t number) {
    const uint64_t bytes = htole64(number);

    return handover_memory_append(memory, &bytes, sizeof bytes);
}

int handover_memory_reserve(struct handover_memory *memory, uint64_t size) {
    static const uint8_t zeros[HANDOVER_MEMORY_STEP_BYTES];
    int result = 0;

    for (uint64_t left = size; result == 0 && left > 0;) {
        const size_t part = left < sizeof zeros ? (size_t)left : sizeof zeros;

        result = handover_memory_append(memory, zeros, part);
        left -= part;
    }
    if (result == 0)
        result = flush(memory);
    memory->at = 0;
    return result;
}

int handover_memory_seal(struct handover_memory *memory) {
    const int result = flush(memory);

    if (result < 0)
        return result;
    return fcntl(memory->fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

void handover_memory_close(struct handover_memory *memory) {
    if (memory->fd >= 0)
        close(memory->fd);
    memory->fd = -1;
}

int handover_sealed_open(struct handover_sealed *sealed, int fd, uint64_t max) {
    struct stat status;
    int result = fstat(fd, &status) < 0 ? -errno : 0;
    int set = 0;

    *sealed = (struct handover_sealed){.fd = fd};
    if (result == 0 && S_ISREG(status.st_mode))
        set = fcntl(fd, F_GET_SEALS);
    // The file's seals (set) are -1 if its file system doesn't support seals: F_GET_SEALS fails.
    if (result == 0 && (set < 0 || (set & SEALS) != SEALS || (uint64_t)status.st_size > max))
        result = -EPROTO;
    if (result < 0)
        handover_sealed_close(sealed);
    else
        sealed->size = (uint64_t)status.st_size;
    return result;
}

int handover_sealed_read(const struct handover_sealed *sealed, uint8_t **read) {
    // One element more than needed, so that the result is not NULL for 0 elements.
    uint8_t *room = malloc(sealed->size + 1);
    uint64_t done = 0;

    if (!room)
        return -ENOMEM;
    while (done < sealed->size) {
        const ssize_t got = pread(sealed->fd, room + done, sealed->size - done, (off_t)done);
        const int error = got < 0 ? errno : EPROTO;

        if (got > 0) {
            done += (uint64_t)got;
        } else if (error != EINTR) {
            free(room);
            return -error;
        }
    }
    *read = room;
    return 0;
}

void handover_sealed_close(struct handover_sealed *sealed) {
    if (sealed->fd >= 0)
        close(sealed->fd);
    sealed->fd = -1;
}
