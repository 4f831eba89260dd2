// SPDX-License-Identifier: GPL-2.0-or-later
// Reading of files, and the check that they are text.
#ifndef POLICY_PARSE_SOURCE_H
#define POLICY_PARSE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/// Content of a file, or of a text in memory.
struct source {
    char *text;
    size_t bytes; // size of the text; limit + 1 if the file is longer than source_read's limit
    uint64_t device, inode;
};

/// Reads at most limit bytes of a file, plus one byte if the file is longer, so that the caller
/// notices it.
/// - Returns 0 with source filled in, whose text the caller frees; or -errno.
int source_read(const char *path, size_t limit, struct source *source);

/// Returns the offset of the first invalid byte (NUL, or not UTF-8, RFC 3629), or the length if
/// there is none.
size_t source_check(const uint8_t *text, size_t bytes);

/// Returns the place (file, line, column) of the byte at offset `at` of a file's text.
/// - file: index in policy.files.
struct policy_place source_place(uint32_t file, const char *text, size_t at);

#endif
