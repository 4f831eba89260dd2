// SPDX-License-Identifier: GPL-2.0-or-later
// Symbols: names that a policy may use in place of numbers, such as ssh for port 22.
// rules/policy/GRAMMAR.md lists them in "Values" and "Rules".
#ifndef POLICY_SYMBOL_H
#define POLICY_SYMBOL_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "spec/symbols.h"

/// Returns the symbol (name and number) with this name; NULL if the list lacks the name.
const struct symbol *symbol_find(const struct symbol *symbols, const char *text, size_t length);

/// Returns the first name of a number in the list, or NULL.
const char *symbol_name(const struct symbol *symbols, policy_value value);

/// Returns the symbols for the codes of a kind of reject; an empty list for a TCP reset.
const struct symbol *symbols_of_reject(enum policy_reject_kind kind);

#endif
