// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from Unicode's data: letters beyond ASCII that names may contain.
#ifndef SPEC_LETTER_H
#define SPEC_LETTER_H

#include <stdint.h>

/// Consecutive characters of one canonical combining class (UAX 44).
struct letter_run {
    uint32_t first, last;
    uint8_t class;
};

/// Capital letters, each `step` code points after the previous one. A capital letter plus `offset`
/// is its small letter.
struct letter_capitals {
    uint32_t first, last, step;
    int32_t offset;
};

/// Two letters that must not follow one another in a name, because Normalization Form C replaces
/// them by one letter. The first is often a combining mark, too.
struct letter_pair {
    uint32_t first, second;
};

enum {
    LETTER_RUN_COUNT = 1317,
    LETTER_CAPITALS_COUNT = 165,
    LETTER_PAIR_COUNT = 59,
};

/// All runs of characters beyond ASCII that names may contain, sorted by code point.
extern const struct letter_run letter_runs[LETTER_RUN_COUNT];

/// All runs of capitals, sorted by code point.
extern const struct letter_capitals letter_capitals[LETTER_CAPITALS_COUNT];

extern const struct letter_pair letter_pairs[LETTER_PAIR_COUNT];

#endif
