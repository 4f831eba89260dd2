// SPDX-License-Identifier: GPL-2.0-or-later
// The user that a firewall becomes if root starts it.
#ifndef PRIVILEGE_USER_H
#define PRIVILEGE_USER_H

#include <sys/types.h>

#include "base/log.h"

/// The user that root becomes.
struct privilege_user {
    uid_t uid;
    gid_t gid;
    const char *name; // its name for messages
};

/// Finds the user to become.
/// - name: as --user; NULL = the default.
/// - Returns 0, or -EINVAL with failure filled in if there is none.
int privilege_user_find(const char *name, struct privilege_user *user, struct failure *failure);

#endif
