// SPDX-License-Identifier: GPL-2.0-or-later
// Whom a firewall becomes that root starts.
#ifndef PRIVILEGE_USER_H
#define PRIVILEGE_USER_H

#include <sys/types.h>

#include "base/log.h"

/// Whom root becomes.
struct privilege_user {
    uid_t uid;
    gid_t gid;
    const char *name; // as it is told
};

/// Finds the user to become.
/// - name: as --user; NULL = the default.
/// - Returns 0, or -EINVAL with failure filled in if there is none.
int privilege_user_find(const char *name, struct privilege_user *user, struct failure *failure);

#endif
