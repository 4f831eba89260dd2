// SPDX-License-Identifier: GPL-2.0-or-later
// The options of `explain`: what a capture's packets are taken for.
#ifndef OPTIONS_EXPLAIN_H
#define OPTIONS_EXPLAIN_H

#include "options/types.h"
#include "options/values.h"

/// Takes the values and words of `explain`, in the order of the help text.
/// - Returns 0, or -EINVAL with failure filled in.
int options_explain_values(const struct values *values, struct options *options);

#endif
