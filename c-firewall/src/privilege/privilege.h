// SPDX-License-Identifier: GPL-2.0-or-later
// Least privilege: rights that the program gives up for good when everything that needs them is
// open.
//
// Theory of operation: the program changes its user (only as root), drops capabilities, and sets
// no_new_privs, Landlock (files) and seccomp (system calls), in this order, while it has one
// thread: threads that start later inherit all of it. The guard does the same, and retains fewer
// rights.
#ifndef PRIVILEGE_PRIVILEGE_H
#define PRIVILEGE_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/log.h"
#include "options/options.h"
#include "ruleset/load.h"

/// Signal that the kernel sends to this process when its parent process ends (PR_SET_PDEATHSIG).
struct privilege_end {
    pid_t parent;
    int signal; // number of the signal; 0 = none
};

/// Rights that privilege_lower has taken away, for privilege_raise.
struct privilege_lowered {
    void *capabilities; // capabilities before privilege_lower, as libcap-ng saves them
    struct privilege_end end;
};

/// Checks that the user that privilege_drop will change to exists. If root has not started the
/// program, the user will not change, and the check succeeds. Must be called before all other steps
/// of the start.
/// - Returns 0, or -errno with failure filled in.
int privilege_check(const struct options *options, struct failure *failure);

/// Lowers the rights to files and sockets until privilege_raise: to those of the user that
/// privilege_drop will change to, without capabilities. The process must have one thread.
/// - Returns 0. On failure restores the rights except for supplementary groups, and returns -errno
///   with failure filled in.
int privilege_lower(const struct options *options, struct privilege_lowered *lowered,
                    struct failure *failure);

/// Restores the rights from before privilege_lower, except for supplementary groups.
void privilege_raise(struct privilege_lowered *lowered);

/// Drops the rights that the program's file has granted (file capabilities, set-user-ID). Does
/// nothing if root has started the program. For commands that need no rights; must be called before
/// they open a file.
/// - Returns 0, or -errno with failure filled in.
int privilege_none(struct failure *failure);

/// Drops the rights that the firewall no longer needs. Logs a warning for files of the policy that
/// it can't read again as its new user.
/// - options: if options->sandbox is false, only the user changes.
/// - loaded: policy whose files' folders stay readable; CAP_NET_RAW is retained if the policy
///   rejects. Zeroed = no policy.
/// - Returns 0, or -errno with failure filled in.
int privilege_drop(const struct options *options, const struct loaded *loaded,
                   struct failure *failure);

/// Drops the rights that the guard does not need: it retains CAP_NET_ADMIN, and may access no file.
/// - user: value of --user; NULL = the user "twinwall".
/// - sandbox: false = only the user changes.
/// - Returns 0, or -errno with failure filled in.
int privilege_drop_guard(const char *user, bool sandbox, struct failure *failure);

#endif
