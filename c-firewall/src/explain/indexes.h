// SPDX-License-Identifier: GPL-2.0-or-later
// Interfaces by numbers, where there are names only: a policy's have one each, and so have the two
// of the packet at hand, if the policy does not name them.
#ifndef EXPLAIN_INDEXES_H
#define EXPLAIN_INDEXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/types.h"

/// The names that a policy has, in the order in which they were asked for. Zeroed it has none.
struct indexes {
    size_t count;
    size_t room;
    bool failed; // there was no memory for all of them
    char (*known)[OPTION_INTERFACE_BYTES_MAX + 1];
};

/// The number of a name in the policy, which gets one if it has none; 0 if there is no memory. For
/// compile_settings. context: the struct indexes.
uint32_t indexes_add(const char *name, void *context);

/// The number of a packet's interface by which it came; 0 = none. name: "" = none.
uint32_t indexes_iif(const struct indexes *indexes, const char *name);

/// The number of a packet's interface by which it leaves; 0 = none. iif: the name of the other one,
/// which may be the same.
uint32_t indexes_oif(const struct indexes *indexes, const char *name, const char *iif);

/// The name that a number stands for; "" = none. iif, oif: of the packet at hand.
const char *indexes_name_of(const struct indexes *indexes, uint32_t number, const char *iif,
                            const char *oif);

void indexes_free(struct indexes *indexes);

#endif
