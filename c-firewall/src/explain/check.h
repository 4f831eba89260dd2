// SPDX-License-Identifier: GPL-2.0-or-later
// Command `check`: checks a policy.
#ifndef EXPLAIN_CHECK_H
#define EXPLAIN_CHECK_H

#include "options/options.h"

/// Checks options->policy. Prints "ok", the rules that nft does not support and the number of names
/// in each file of names; logs warnings about rules with less effect than they seem to have. With
/// options->print, prints only the policy's canonical text. Logs the error of an invalid policy.
/// Returns the exit code.
int check_run(const struct options *options);

#endif
