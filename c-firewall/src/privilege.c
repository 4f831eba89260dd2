// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege.h"

#include <errno.h>
#include <sys/prctl.h>

/// What is executed later gets no more rights than the program has.
static int set_no_new_privs(struct failure *failure) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0)
        return 0;
    failure_set_start(failure, "prctl", errno);
    return -errno;
}

int privilege_drop(const struct options *options, const struct loaded *loaded,
                   struct failure *failure) {
    (void)options;
    (void)loaded;
    return set_no_new_privs(failure);
}

int privilege_drop_guard(const char *user, bool sandbox, struct failure *failure) {
    (void)user;
    return sandbox ? set_no_new_privs(failure) : 0;
}
