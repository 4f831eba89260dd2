// SPDX-License-Identifier: GPL-2.0-or-later
// A policy as its canonical text, which parses to the same policy. rules/policy/GRAMMAR.md, "The
// canonical print". All texts are NUL-terminated and to be freed; NULL = no memory.
#ifndef POLICY_PRINT_H
#define POLICY_PRINT_H

#include <stdio.h>

#include "policy/policy.h"

/// The whole policy, with a line end after each line.
char *print_policy(const struct policy *policy);

/// One rule on one line, with its comment, without indentation and line end.
char *print_rule(const struct policy *policy, const struct policy_table *table,
                 const struct policy_rule *rule);

/// One value; flags joined by commas.
char *print_value(enum policy_type type, policy_value value);

/// Prints a range of values as value_print_range does, or the name of a host.
void print_range(FILE *out, const struct hostnames *hostnames, enum policy_type type,
                 const struct policy_range *values);

#endif
