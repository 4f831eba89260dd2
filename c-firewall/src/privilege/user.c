// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege/user.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "options/values.h"

/// Name of the user that a firewall without --user changes to if root has started it.
#define USER_OWN "twinwall"

/// Parses the numeric ID of a user or a group from a text of this length.
static bool parse_id(const char *text, size_t length, uint32_t *id) {
    return values_parse_number(text, text + length, UINT32_MAX - 1, id);
}

/// Parses UID or UID:GID, which need not exist. Without GID, the group is that of the user, or the
/// group with the number UID if there is no such user. Returns false if the text has another
/// format.
static bool parse_numbers(const char *text, struct privilege_user *user) {
    const size_t length = strcspn(text, ":");
    const struct passwd *known;
    uint32_t uid, gid;

    if (!parse_id(text, length, &uid))
        return false;
    known = text[length] ? NULL : getpwuid(uid);
    gid = known ? known->pw_gid : uid;
    if (text[length] && !parse_id(text + length + 1, strlen(text + length + 1), &gid))
        return false;
    *user = (struct privilege_user){.uid = uid, .gid = gid, .name = text};
    return true;
}

int privilege_user_find(const char *name, struct privilege_user *user, struct failure *failure) {
    const struct passwd *known = getpwnam(name ? name : USER_OWN);

    if (known) {
        *user = (struct privilege_user){
            .uid = known->pw_uid, .gid = known->pw_gid, .name = name ? name : USER_OWN};
        return 0;
    }
    if (name && parse_numbers(name, user))
        return 0;
    if (name)
        failure_set(failure, LOG_EXIT_USAGE, "there is no user \"%s\": choose another with --user",
                    name);
    else
        failure_set(failure, LOG_EXIT_USAGE,
                    "there is no user \"" USER_OWN "\" for the firewall to become: make it (in a "
                    "checkout sudo make user; the packages do by systemd-sysusers), or choose "
                    "another with --user NAME");
    return -EINVAL;
}
