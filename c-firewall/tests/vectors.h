// SPDX-License-Identifier: GPL-2.0-or-later
// Reads the vectors of ../tests/corpus/vectors; README.md there describes their format.
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    VECTOR_NAME_BYTES = 128,
    VECTOR_ASK_BYTES = 32,
    VECTOR_EXPECT_BYTES = 4096,
};

struct vector {
    char name[VECTOR_NAME_BYTES];
    char ask[VECTOR_ASK_BYTES]; // question of a vector about names
    // Bytes in a block of this exact size, so that a sanitizer detects reads after it; freed by the
    // next vectors_next.
    uint8_t *bytes;
    size_t length;
    size_t original; // original length; equal to length if not given
    size_t received; // number of received bytes; equal to length if not given
    char expect[VECTOR_EXPECT_BYTES];
};

/// Opens a file of vectors by its name. Ends the test program if there is no such file.
FILE *vectors_open(const char *name);

/// Reads the next vector. Returns 0 at the end of the file. Ends the test program on an unknown
/// line.
/// - vector: in/out: the previous vector, zeroed before the first call.
int vectors_next(FILE *file, struct vector *vector);

#endif
