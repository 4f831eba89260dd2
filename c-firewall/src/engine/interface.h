// SPDX-License-Identifier: GPL-2.0-or-later
// Network interfaces: index to name, cached for a second, and name to index.
#ifndef ENGINE_INTERFACE_H
#define ENGINE_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

enum {
    // Number of slots of the cache. Indexes that are equal modulo INTERFACE_SLOTS use the same slot
    // and replace each other.
    INTERFACE_SLOTS = 64,
};

// Age at which a cached name is read again, in nanoseconds.
#define INTERFACE_AGE_NS UINT64_C(1000000000)

/// Function that reads the name of the interface with an index. Returns true if there is such an
/// interface.
typedef bool interface_read(uint32_t index, char name[static IF_NAMESIZE]);

struct interface_slot {
    uint32_t index; // index of the interface; 0 = free slot
    uint64_t read_ns;
    policy_value name;
};

/// Cache of interface names for one thread. A zeroed cache is empty, and reads names by
/// interface_system.
struct interfaces {
    interface_read *read; // function that returns the name of an index; NULL = interface_system
    struct interface_slot slots[INTERFACE_SLOTS];
};

/// Returns the name of an interface as a value of POLICY_IFNAME; 0 if there is none.
/// - index: 0 = none.
/// - now_ns: time by a monotonic clock.
policy_value interface_name(struct interfaces *interfaces, uint32_t index, uint64_t now_ns);

/// Returns a name as a value of POLICY_IFNAME: its bytes, NUL-padded to 16, as a big-endian number.
policy_value interface_value(const char *name);

/// Finds the name of the interface with an index (if_indextoname). Returns true if there is such an
/// interface.
bool interface_system(uint32_t index, char name[static IF_NAMESIZE]);

/// Returns the index of the interface with a name (if_nametoindex); 0 = there is none. A callback
/// for compile_settings.
uint32_t interface_index(const char *name, void *context);

#endif
