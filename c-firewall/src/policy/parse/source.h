// SPDX-License-Identifier: GPL-2.0-or-later
// Reads files and checks that they are text.
#ifndef POLICY_PARSE_SOURCE_H
#define POLICY_PARSE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/// Content of a file.
struct source {
    char *text;
    size_t bytes; // limit + 1 if there is more
    uint64_t device, inode;
};

/// Reads at most limit bytes of a file, and one more if there is more.
/// - Returns 0 with source filled in, its text to be freed; or -errno.
int source_read(const char *path, size_t limit, struct source *source);

/// Finds the first byte that no text has: NUL, or one that is not UTF-8 (RFC 3629). Returns its
/// place, or the length if there is none.
size_t source_check(const uint8_t *text, size_t bytes);

/// The place of a byte in a text.
struct policy_place source_place(uint32_t file, const char *text, size_t at);

#endif
