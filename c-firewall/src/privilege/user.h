// SPDX-License-Identifier: GPL-2.0-or-later
// User that a firewall changes to if root has started it.
#ifndef PRIVILEGE_USER_H
#define PRIVILEGE_USER_H

#include <sys/types.h>

#include "base/log.h"

/// User that a firewall changes to if root has started it.
struct privilege_user {
    uid_t uid;
    gid_t gid;
    const char *name; // name of the user for messages
};

/// Finds the user to change to.
/// - name: value of --user; NULL = the user "twinwall".
/// - Returns 0, or -EINVAL with failure filled in if no user has the name, unless the name is UID
///   or UID:GID.
int privilege_user_find(const char *name, struct privilege_user *user, struct failure *failure);

#endif
