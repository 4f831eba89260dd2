// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml: syntax of the fields.
#ifndef SPEC_GROUP_H
#define SPEC_GROUP_H

#include "spec/refused.h"

/// Group of fields that begin with the same word or words, as `tcp dport` begins with `tcp`; the
/// place of the next word; and the expected next words, as an error lists them.
struct group {
    const char *word;
    enum parse_where at;
    const char *expected;
};

enum {
    GROUP_META = 13, // index of meta; some of its fields (group_alone) may be written without it
    GROUP_COUNT,
    GROUP_ALONE_COUNT = 7,
};

extern const struct group group_words[GROUP_COUNT];

/// Fields of the group meta that may be written without the word meta: `mark` means `meta mark`.
extern const char *const group_alone[GROUP_ALONE_COUNT];

#endif
