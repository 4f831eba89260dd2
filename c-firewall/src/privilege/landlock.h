// SPDX-License-Identifier: GPL-2.0-or-later
// Which files may be opened once the program runs (landlock(7)): those of the policy's folders to
// read, the events file to write, the control socket to remove. Nothing else, no device, no TCP
// connection or port, no socket with an abstract name, no signal to others; each as far as the
// kernel knows it.
#ifndef PRIVILEGE_LANDLOCK_H
#define PRIVILEGE_LANDLOCK_H

#include "base/log.h"
#include "options/options.h"
#include "policy/policy.h"

/// Enforces the rules for the calling thread and those that it starts. Needs no_new_privs.
/// - options: what it names is allowed; NULL = nothing.
/// - policy: whose files' folders are readable; NULL without one.
/// - Returns the version of the kernel's Landlock (0 = it has none, and nothing is in force), or
///   -errno with failure filled in.
int privilege_landlock(const struct options *options, const struct policy *policy,
                       struct failure *failure);

#endif
