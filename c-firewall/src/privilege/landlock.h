// SPDX-License-Identifier: GPL-2.0-or-later
// Access to files while the program runs (landlock(7)): it may read files in the policy's folders,
// create and write files in the events file's folder, and remove files in the control socket's
// folder. It may open nothing else: no device, no TCP connection or port, no abstract socket
// (unless systemd's is one); and it may signal no other process. All of this applies as far as the
// kernel supports it.
#ifndef PRIVILEGE_LANDLOCK_H
#define PRIVILEGE_LANDLOCK_H

#include "base/log.h"
#include "options/options.h"
#include "policy/policy.h"

/// Enforces Landlock's rules for the calling thread and the threads that it starts. Needs
/// no_new_privs.
/// - options: options with the files that may be accessed; NULL = no files.
/// - policy: policy whose files' folders may be read; NULL = no folders.
/// - Returns the version of the kernel's Landlock (0 = the kernel has none, and nothing is
///   enforced), or -errno with failure filled in.
int privilege_landlock(const struct options *options, const struct policy *policy,
                       struct failure *failure);

#endif
