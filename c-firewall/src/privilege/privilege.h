// SPDX-License-Identifier: GPL-2.0-or-later
// Least privilege: what the program gives up for good once all that needs rights is open.
//
// Theory of operation: the user (only root can change it), the capabilities, no_new_privs, Landlock
// (which files) and seccomp (which system calls), in this order, on the only thread there is:
// threads that start later inherit it all. The guard does the same with less.
#ifndef PRIVILEGE_PRIVILEGE_H
#define PRIVILEGE_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/log.h"
#include "options/options.h"
#include "ruleset/load.h"

/// The signal that the parent's end sends (PR_SET_PDEATHSIG).
struct privilege_end {
    pid_t parent;
    int signal; // 0 = nothing
};

/// What privilege_raise gives back.
struct privilege_lowered {
    void *capabilities; // of libcap-ng
    struct privilege_end end;
};

/// Checks whether there is the user that privilege_drop will become, before anything else is done.
/// - Returns 0, or -errno with failure filled in.
int privilege_check(const struct options *options, struct failure *failure);

/// Has files opened, made and connected to with no more rights than privilege_drop will leave,
/// until privilege_raise: as its user, without any capability. For the only thread there is.
/// - Returns 0, or -errno with failure filled in and all as it was.
int privilege_lower(const struct options *options, struct privilege_lowered *lowered,
                    struct failure *failure);

/// Takes the rights of before privilege_lower back.
void privilege_raise(struct privilege_lowered *lowered);

/// Drops for good the capabilities that the program's file granted to a user without them. For
/// commands that need no rights: to be called before they open a file.
/// - Returns 0, or -errno with failure filled in.
int privilege_none(struct failure *failure);

/// Drops the rights that the firewall needs no more. Warns of files that it will not be able to
/// read or write again as the user that it becomes.
/// - loaded: the policy, whose folders stay readable; it says whether CAP_NET_RAW is kept.
/// - Returns 0, or -errno with failure filled in.
int privilege_drop(const struct options *options, const struct loaded *loaded,
                   struct failure *failure);

/// Drops the rights that the guard does not need: it needs CAP_NET_ADMIN and no file.
/// - user: as --user; NULL = the default.
int privilege_drop_guard(const char *user, bool sandbox, struct failure *failure);

#endif
