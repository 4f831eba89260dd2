// SPDX-License-Identifier: GPL-2.0-or-later
// `check`: whether a policy is sound.
#ifndef EXPLAIN_CHECK_H
#define EXPLAIN_CHECK_H

#include "options/options.h"

/// Prints "ok" and what nft knows nothing of, and warns of what does less than it seems to; or with
/// options->print the canonical text; or what is wrong. Returns the exit code.
int check_run(const struct options *options);

#endif
