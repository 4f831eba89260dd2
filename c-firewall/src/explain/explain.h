// SPDX-License-Identifier: GPL-2.0-or-later
// `explain`: the packets of a capture through a policy, each with its verdict and the walk there.
//
// Theory of operation: each packet is decided twice, by the policy as the daemon compiles it and
// rule by rule; the walk that is told of is the second. A difference between the two is a fault of
// the program, and ends it.
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H

#include "options/options.h"

/// Explains all packets of options->explain.capture. Returns the exit code.
int explain_run(const struct options *options);

#endif
