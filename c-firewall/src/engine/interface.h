// SPDX-License-Identifier: GPL-2.0-or-later
// Network interfaces: index to name, kept for a second, and name to index.
#ifndef ENGINE_INTERFACE_H
#define ENGINE_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

enum {
    INTERFACE_SLOTS = 64, // names kept; two indexes that share a slot push each other out
};

#define INTERFACE_AGE_NS UINT64_C(1000000000) // a name is read again when it is older

/// Reads the name of an index. Returns whether there is such an interface.
typedef bool interface_read(uint32_t index, char name[static IF_NAMESIZE]);

struct interface_slot {
    uint32_t index; // 0 = free
    uint64_t read_ns;
    policy_value name;
};

/// The names that one thread knows. A zeroed one knows none, and reads by interface_system.
struct interfaces {
    interface_read *read; // NULL = interface_system
    struct interface_slot slots[INTERFACE_SLOTS];
};

/// The name of an interface as a value of POLICY_IFNAME; 0 if there is none.
/// - index: 0 = none.
/// - now_ns: of a clock that doesn't go back.
policy_value interface_name(struct interfaces *interfaces, uint32_t index, uint64_t now_ns);

/// The value of POLICY_IFNAME that a name is: its bytes, NUL-padded to 16, as a big-endian number.
policy_value interface_value(const char *name);

/// Asks the system for the name of an index (if_indextoname).
bool interface_system(uint32_t index, char name[static IF_NAMESIZE]);

/// Asks the system for the index of a name, 0 if there is none. For compile_settings.
uint32_t interface_index(const char *name, void *context);

#endif
