// SPDX-License-Identifier: GPL-2.0-or-later
// The policy of a running program: read, compiled, with its state, before anything else is opened.
#ifndef LOAD_H
#define LOAD_H

#include "compile.h"
#include "flow.h"
#include "log.h"
#include "options.h"
#include "policy.h"
#include "reject.h"

/// What all workers share. Zeroed, but for the sockets, it is no policy.
struct loaded {
    struct policy policy;      // for reports
    struct compiled *compiled; // NULL = no policy
    struct flow flow;
    struct reject reject; // open if the policy can ask for answers
};

/// Loads options->policy, if there is one, and adapts the options to it.
/// - Returns 0, or -errno with failure filled in and everything freed: what is wrong with the
/// policy,
///   an interface that it names and that is not there, --copy-bytes that are too few, CAP_NET_RAW
///   that is missing.
int load(struct loaded *loaded, struct options *options, struct failure *failure);

/// What the policy reads; NULL without one.
const struct requirement *load_requirement(const struct loaded *loaded);

/// Frees and closes what load made.
void load_free(struct loaded *loaded);

#endif
