// SPDX-License-Identifier: GPL-2.0-or-later
// Least privilege: what the program gives up for good once all that needs rights is open.
//
// Theory of operation: the user (only root can change it), the capabilities, no_new_privs, Landlock
// (which files) and seccomp (which system calls), in this order, on the only thread there is:
// threads that start later inherit it all. The guard does the same with less.
#ifndef PRIVILEGE_H
#define PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "load.h"
#include "log.h"
#include "options.h"

/// Whom privilege_drop will become. Returns false if it stays who it is, or there is no such user.
bool privilege_user(const struct options *options, uid_t *user, gid_t *group);

/// Gives up what the firewall needs no more. Warns of files that it will not be able to read or
/// write again as the user that it becomes.
/// - loaded: the policy, whose folders stay readable; it says whether CAP_NET_RAW is kept.
/// - Returns 0, or -errno with failure filled in.
int privilege_drop(const struct options *options, const struct loaded *loaded,
                   struct failure *failure);

/// The same for the guard, which needs CAP_NET_ADMIN and no file.
/// - user: as --user; NULL = the default.
int privilege_drop_guard(const char *user, bool sandbox, struct failure *failure);

#endif
