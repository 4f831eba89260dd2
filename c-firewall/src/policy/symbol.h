// SPDX-License-Identifier: GPL-2.0-or-later
// The names of numbers. rules/policy/GRAMMAR.md, "Values", lists them.
#ifndef POLICY_SYMBOL_H
#define POLICY_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "spec/symbols.h"

/// The symbol of a name, or NULL.
const struct symbol *symbol_find(const struct symbol *symbols, const char *text, size_t length);

/// The name of a number: the first that it has in the list, or NULL.
const char *symbol_name(const struct symbol *symbols, policy_value value);

/// The names of the codes of a reject.
const struct symbol *symbols_of_reject(enum policy_reject_kind kind);

#endif
