// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat newfstatat read close
#include "policy/parse/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10, // initial size of the buffer in bytes; it is doubled as needed
};

/// Reads at most limit bytes from a descriptor, plus one byte if there are more.
static int read_all(int fd, size_t limit, struct source *source) {
    size_t room = 0;

    for (;;) {
        ssize_t got;

        if (source->bytes == room) {
            char *text;

            room = room ? 2 * room : READ_BYTES;
            room = room > limit + 1 ? limit + 1 : room;
            text = realloc(source->text, room);
            if (!text)
                return -ENOMEM;
            source->text = text;
        }
        got = read(fd, source->text + source->bytes, room - source->bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        source->bytes += (size_t)got;
        if (got == 0 || source->bytes > limit)
            return 0;
    }
}

int source_read(const char *path, size_t limit, struct source *source) {
    struct stat facts;
    int fd, error;

    *source = (struct source){0};
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    error = fstat(fd, &facts) ? -errno : read_all(fd, limit, source);
    close(fd);
    if (error) {
        free(source->text);
        return error;
    }
    source->device = facts.st_dev;
    source->inode = facts.st_ino;
    return 0;
}

/// Returns the length in bytes of a UTF-8 character that begins with this byte; 0 if no character
/// begins with it.
static size_t bytes_of(uint8_t lead) {
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/// Returns the length of the character at the start of a text if it is UTF-8 (RFC 3629), else 0.
static size_t character_bytes(const uint8_t *text, size_t bytes) {
    const uint8_t lead = text[0];
    const size_t length = bytes_of(lead);

    if (length > bytes)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) ||
        (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

size_t source_check(const uint8_t *text, size_t bytes) {
    size_t at = 0;

    while (at < bytes) {
        const size_t length = text[at] ? character_bytes(text + at, bytes - at) : 0;

        if (length == 0)
            return at;
        at += length;
    }
    return bytes;
}

struct policy_place source_place(uint32_t file, const char *text, size_t at) {
    struct policy_place place = {.file = file, .line = 1, .column = 1};

    for (size_t i = 0; i < at; i++) {
        place.column++;
        if (text[i] == '\n') {
            place.line++;
            place.column = 1;
        }
    }
    return place;
}
