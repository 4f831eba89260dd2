// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/compiled.h"

#include <stdlib.h>

void *compiled_grow(void *array, uint32_t count, size_t size) {
    // The room doubles whenever count is a power of 2.
    if (count & (count - 1))
        return array;
    return realloc(array, (count > 0 ? 2ULL * count : 1) * size);
}
