// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket ioctl close
#include "engine/interface.h"

#include <string.h>

bool interface_system(uint32_t index, char name[static IF_NAMESIZE]) {
    return if_indextoname(index, name);
}

uint32_t interface_index(const char *name, void *context) {
    (void)context;
    return if_nametoindex(name);
}

policy_value interface_value(const char *name) {
    const size_t length = strnlen(name, IF_NAMESIZE);
    policy_value value = 0;

    for (size_t i = 0; i < IF_NAMESIZE; i++)
        value = value << 8 | (i < length ? (uint8_t)name[i] : 0);
    return value;
}

policy_value interface_name(struct interfaces *interfaces, uint32_t index, uint64_t now_ns) {
    struct interface_slot *slot = &interfaces->slots[index % INTERFACE_SLOTS];
    interface_read *read = interfaces->read ? interfaces->read : interface_system;
    char name[IF_NAMESIZE];

    if (index == 0)
        return 0;
    if (slot->index == index && now_ns - slot->read_ns < INTERFACE_AGE_NS)
        return slot->name;
    *slot = (struct interface_slot){
        .index = index,
        .read_ns = now_ns,
        .name = read(index, name) ? interface_value(name) : 0,
    };
    return slot->name;
}
