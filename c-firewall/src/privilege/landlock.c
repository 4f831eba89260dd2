// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Rights of newer kernels that the headers of Debian 12 lack (linux/landlock.h).
enum {
    ACCESS_FS_TRUNCATE = 1 << 14,
    ACCESS_FS_IOCTL_DEV = 1 << 15,
    ACCESS_NET_BIND_TCP = 1 << 0,
    ACCESS_NET_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

/// Struct landlock_ruleset_attr of newer kernels.
struct ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

static const uint64_t first_version =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

/// Returns the attributes of a ruleset that refuses everything that a version of Landlock can
/// refuse; for versions after 6, everything that version 6 can refuse. Rules that are added later
/// allow exceptions. Abstract sockets are not refused if systemd's socket for notifications is an
/// abstract socket.
static struct ruleset make_ruleset(int version) {
    const char *notify = getenv("NOTIFY_SOCKET");
    struct ruleset ruleset = {.handled_access_fs = first_version};

    if (version >= 2)
        ruleset.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= 3)
        ruleset.handled_access_fs |= ACCESS_FS_TRUNCATE;
    if (version >= 4)
        ruleset.handled_access_net = ACCESS_NET_BIND_TCP | ACCESS_NET_CONNECT_TCP;
    if (version >= 5)
        ruleset.handled_access_fs |= ACCESS_FS_IOCTL_DEV;
    if (version >= 6)
        ruleset.scoped = SCOPE_SIGNAL | (notify && *notify == '@' ? 0 : SCOPE_ABSTRACT_UNIX_SOCKET);
    return ruleset;
}

/// Adds a rule that allows an access below a folder. If the folder can't be opened, adds no rule
/// and succeeds.
/// - Returns 0 or -errno.
static int allow_folder(int ruleset, const char *folder, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    int result = 0;

    rule.parent_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return 0;
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        result = -errno;
    close(rule.parent_fd);
    return result;
}

/// Adds rules that allow an access in the folder of a file and, if the file is a link, in the
/// folder of the link's target.
static int allow(int ruleset, const char *file, uint64_t access) {
    char path[PATH_MAX], target[PATH_MAX];
    int result;

    snprintf(path, sizeof path, "%s", file);
    result = allow_folder(ruleset, dirname(path), access);
    if (result == 0 && realpath(file, target))
        result = allow_folder(ruleset, dirname(target), access);
    return result;
}

static bool is_file(const char *events) {
    return strcmp(events, "-") != 0 && strncmp(events, "unix:", strlen("unix:")) != 0;
}

/// Adds the rules for the files that the options and the policy name. Returns 0 or -errno.
static int allow_all(int ruleset, const struct options *options, const struct policy *policy) {
    int result = 0;

    for (uint32_t i = 0; result == 0 && policy && i < policy->file_count; i++)
        result = allow(ruleset, policy->files[i], LANDLOCK_ACCESS_FS_READ_FILE);
    if (result == 0 && options && options->events && is_file(options->events))
        result = allow(ruleset, options->events,
                       LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG);
    if (result == 0 && options && options->control)
        result = allow(ruleset, options->control, LANDLOCK_ACCESS_FS_REMOVE_FILE);
    return result;
}

int privilege_landlock(const struct options *options, const struct policy *policy,
                       struct failure *failure) {
    const long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    const struct ruleset handled = make_ruleset((int)version);
    int ruleset, result;

    if (version < 0)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (ruleset < 0) {
        result = -errno;
        failure_set_start(failure, "landlock_create_ruleset", -result);
        return result;
    }
    result = allow_all(ruleset, options, policy);
    if (result < 0) {
        failure_set_start(failure, "landlock_add_rule", -result);
    } else if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0) {
        result = -errno;
        failure_set_start(failure, "landlock_restrict_self", -result);
    }
    close(ruleset);
    return result < 0 ? result : (int)version;
}
