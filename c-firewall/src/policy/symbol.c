// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/symbol.h"

#include <string.h>

const struct symbol *symbol_find(const struct symbol *symbols, const char *text, size_t length) {
    for (; symbols->name; symbols++)
        if (strncmp(symbols->name, text, length) == 0 && !symbols->name[length])
            return symbols;
    return NULL;
}

const char *symbol_name(const struct symbol *symbols, policy_value value) {
    for (; symbols->name; symbols++)
        if (symbols->number == value)
            return symbols->name;
    return NULL;
}

const struct symbol *symbols_of_reject(enum policy_reject_kind kind) {
    switch (kind) {
    case POLICY_REJECT_ICMP:
        return symbols_reject_icmp;
    case POLICY_REJECT_ICMPV6:
        return symbols_icmpv6_codes;
    case POLICY_REJECT_ICMPX:
        return symbols_reject_icmpx;
    default:
        return symbols_none;
    }
}
