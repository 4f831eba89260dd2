// SPDX-License-Identifier: GPL-2.0-or-later
// The options of `explain`: what a capture's packets are taken for.
#ifndef OPTIONS_EXPLAIN_H
#define OPTIONS_EXPLAIN_H

#include "options/given.h"
#include "options/types.h"

/// Takes the values and words of `explain`, in the order of the help text.
/// - Returns 0, or -EINVAL with failure filled in.
int options_explain_values(const struct given *given, struct options *options);

#endif
