// SPDX-License-Identifier: GPL-2.0-or-later
// Printing of a policy as its canonical text, which parses to the same policy.
// rules/policy/GRAMMAR.md, "The canonical print". All returned texts are NUL-terminated, and the
// caller frees them; NULL = no memory.
#ifndef POLICY_PRINT_H
#define POLICY_PRINT_H

#include <stdio.h>

#include "policy/policy.h"

/// Returns the text of a complete policy, with a line end after each line.
char *print_policy(const struct policy *policy);

/// Returns the text of a rule on one line, with its comment, without indentation and line end.
char *print_rule(const struct policy *policy, const struct policy_table *table,
                 const struct policy_rule *rule);

/// Returns the text of a value (not a host name); flags are joined by commas.
char *print_value(enum policy_type type, policy_value value);

/// Prints a range of values like value_print_range, or a host name.
void print_range(FILE *out, const struct hostnames *hostnames, enum policy_type type,
                 const struct policy_range *values);

#endif
