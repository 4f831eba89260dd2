// SPDX-License-Identifier: GPL-2.0-or-later
// Index numbers for interfaces that are known by name only: one for each name in the policy, and
// two for the current packet's interfaces, if the policy does not name them.
#ifndef EXPLAIN_INDEXES_H
#define EXPLAIN_INDEXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/types.h"

/// Names of interfaces in the policy, in the order of their first lookup. Zeroed = none.
struct indexes {
    size_t count;
    size_t room;
    bool failed; // true if there was no memory for a name
    char (*known)[OPTION_INTERFACE_BYTES_MAX + 1];
};

/// Returns the index number of an interface name in the policy; adds the name if it is new; 0 if
/// there is no memory. The number is this program's own, not the kernel's. A callback for
/// compile_settings.
/// - context: the struct indexes.
uint32_t indexes_add(const char *name, void *context);

/// Returns the index number of the interface at which a packet arrived; 0 = none. A name that the
/// policy does not have has a reserved number.
/// - name: name of the interface; "" = none.
uint32_t indexes_iif(const struct indexes *indexes, const char *name);

/// Returns the index number of the interface by which a packet leaves; 0 = none. A name that the
/// policy does not have has a reserved number: the same as that of the arrival interface if both
/// names are equal.
/// - name: name of the interface; "" = none.
/// - iif: name of the interface at which the packet arrived.
uint32_t indexes_oif(const struct indexes *indexes, const char *name, const char *iif);

/// Returns the interface name for an index number; "" = none.
/// - iif, oif: names of the current packet's interfaces, for the reserved numbers.
const char *indexes_name_of(const struct indexes *indexes, uint32_t number, const char *iif,
                            const char *oif);

void indexes_free(struct indexes *indexes);

#endif
