// SPDX-License-Identifier: GPL-2.0-or-later
// The names of numbers. rules/policy/GRAMMAR.md, "Values", lists them.
#ifndef SYMBOL_H
#define SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "policy.h"

/// A name of a number. A list of them ends with a name of NULL.
struct symbol {
    const char *name;
    uint32_t number;
};

/// Log levels; units of time in seconds.
extern const struct symbol symbol_levels[];
extern const struct symbol symbol_units[];

/// The symbol of a name, or NULL.
const struct symbol *symbol_find(const struct symbol *symbols, const char *text, size_t length);

/// The name of a number: the first that it has in the list, or NULL.
const char *symbol_name(const struct symbol *symbols, policy_value value);

/// The names that a type's values may be written with.
const struct symbol *symbols_of(enum policy_type type);

/// The names that a type's values are printed with.
const struct symbol *symbols_printed(enum policy_type type);

/// The names of the codes of a reject.
const struct symbol *symbols_of_reject(enum policy_reject_kind kind);

#endif
