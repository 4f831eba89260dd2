// SPDX-License-Identifier: GPL-2.0-or-later
// Command `explain`: decides the packets of a capture by a policy, and prints each verdict with the
// rules that led to it.
//
// Theory of operation: each packet is decided twice, first by the policy as the daemon compiles it,
// then rule by rule. The printed trace is that of the second decision. If the results differ, the
// program has a defect, and ends with an error.
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H

#include "options/options.h"

/// Explains all packets of options->explain.capture by options->policy. Returns the exit code.
int explain_run(const struct options *options);

#endif
