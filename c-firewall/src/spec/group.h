// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml: syntax of the fields.
#ifndef SPEC_GROUP_H
#define SPEC_GROUP_H

#include "spec/refused.h"

/// First word of fields, and the words that follow it.
struct group {
    const char *word;
    enum parse_where at;
    const char *expected;
};

enum {
    GROUP_META = 13, // of fields that are written without a group, too
    GROUP_COUNT,
    GROUP_ALONE_COUNT = 7,
};

extern const struct group group_words[GROUP_COUNT];

/// Fields that may be written without a group.
extern const char *const group_alone[GROUP_ALONE_COUNT];

#endif
