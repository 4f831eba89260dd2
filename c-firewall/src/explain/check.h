// SPDX-License-Identifier: GPL-2.0-or-later
// Command `check`: checks a policy.
#ifndef EXPLAIN_CHECK_H
#define EXPLAIN_CHECK_H

#include "options/options.h"

/// Prints "ok" and the rules that nft does not support, and logs warnings about rules with less
/// effect than they seem to have; with options->print it prints the canonical text; for an invalid
/// policy, the error. Returns the exit code.
int check_run(const struct options *options);

#endif
