// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: newfstatat unlinkat listen close
#include "control/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "options/values.h"
#include "privilege/path.h"

enum {
    BACKLOG = 16,
    PATH_BYTES = 32, // maximum size of "/proc/self/fd/FD" with its final NUL
};

static const char too_long[] = "a socket's path has at most 107 bytes: choose a shorter one";
static const char no_socket[] = "there is a file that is no socket: choose another path";

/// Fills in a failure about the socket's file. Returns -error.
static int fail(const char *path, const char *cause_and_cure, int error, struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE, "control socket %s: %s", path, cause_and_cure);
    return -error;
}

static int fail_unknown(const char *kind, const char *name, struct failure *failure) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(failure, LOG_EXIT_USAGE,
                "--control-owner: there is no %s \"%s\": add it or choose another", kind,
                arguments_quote(name, quoted));
    return -EINVAL;
}

/// Parses a user or group id. Returns false if the text is not a number from 0 to 2^32 - 2.
static bool parse_id(const char *text, uint32_t *id) {
    return values_parse_number(text, text + strlen(text), UINT32_MAX - 1, id);
}

/// Parses USER or USER:GROUP, each a name or a number. A part that is missing is -1: then the file
/// keeps its owner or group.
/// - Returns 0, or -errno with failure filled in.
static int parse_owner(const char *text, uid_t *owner, gid_t *group, struct failure *failure) {
    char *user = text ? strdup(text) : NULL;
    char *colon = user ? strchr(user, ':') : NULL;
    const struct passwd *known_user;
    const struct group *known_group;
    int result = 0;

    *owner = (uid_t)-1;
    *group = (gid_t)-1;
    if (!text)
        return 0;
    if (!user) {
        failure_set_start(failure, "strdup", ENOMEM);
        return -ENOMEM;
    }
    if (colon)
        *colon = '\0';
    known_user = getpwnam(user);
    if (known_user)
        *owner = known_user->pw_uid;
    else if (!parse_id(user, owner))
        result = fail_unknown("user", user, failure);
    if (result == 0 && colon) {
        known_group = getgrnam(colon + 1);
        if (known_group)
            *group = known_group->gr_gid;
        else if (!parse_id(colon + 1, group))
            result = fail_unknown("group", colon + 1, failure);
    }
    free(user);
    return result;
}

/// Fills in the failure for the error of a system call on the socket's file or its folder, with the
/// cure. Returns -error.
static int fail_bind(const char *path, int error, struct failure *failure) {
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) : 0;

    switch (error) {
    case ENOENT:
        failure_set(
            failure, LOG_EXIT_USAGE,
            "control socket %s: there is no folder %.*s: make it (mkdir -p %.*s; systemd does by "
            "RuntimeDirectory=) or choose another path",
            path, folder, path, folder, path);
        return -error;
    case EACCES:
    case EPERM:
    case EROFS:
        return fail(
            path,
            "the folder can't be written to: let the user who starts the firewall write there, "
            "or choose another path",
            error, failure);
    case ENOTDIR:
        return fail(path, "a part of the path is no folder: choose another path", error, failure);
    case ELOOP:
        return fail(path, "others could redirect it by a link: choose another path", error,
                    failure);
    case EISDIR:
        return fail(path, no_socket, error, failure);
    default:
        failure_set_start(failure, "bind", error);
        return -error;
    }
}

/// Fails if a process may listen at the socket's file. The failure names the process, if it is
/// known.
/// - Returns 0 if no process listens, or -errno with failure filled in.
static int check_stale(const char *path, const struct sockaddr_un *address,
                       struct failure *failure) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred listener = {.pid = 0};
    socklen_t length = sizeof listener;
    int error = 0;

    if (fd < 0) {
        failure_set_start(failure, "socket", errno);
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0)
        error = errno;
    else
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &length);
    close(fd);
    if (error == ECONNREFUSED || error == ENOENT)
        return 0;
    if (listener.pid > 0)
        failure_set(failure, LOG_EXIT_OWNED,
                    "control socket %s: in use by pid %d: stop it or choose another path", path,
                    listener.pid);
    else
        failure_set(failure, LOG_EXIT_OWNED,
                    "control socket %s: in use by another program: stop it or choose another path",
                    path);
    return -EADDRINUSE;
}

/// Removes the socket's file. Fails if the file is no socket, or if a process listens at it.
static int remove_stale(const struct control_socket *made, const struct sockaddr_un *address,
                        struct failure *failure) {
    struct stat found;
    int result;

    if (fstatat(made->folder, made->name, &found, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail_bind(made->path, errno, failure);
    if (!S_ISSOCK(found.st_mode))
        return fail(made->path, no_socket, EEXIST, failure);
    result = check_stale(made->path, address, failure);
    if (result == 0 && unlinkat(made->folder, made->name, 0) < 0 && errno != ENOENT)
        result = fail_bind(made->path, errno, failure);
    return result;
}

/// Binds the socket so that its file has the mode from its creation.
/// - Returns 0 or -errno.
static int bind_with_mode(int fd, const struct sockaddr_un *address, mode_t mode) {
    const mode_t before = umask(~mode & 0777);
    const int result = bind(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;

    umask(before);
    return result;
}

/// Creates the socket's file in the open folder, through /proc/self/fd, since bind accepts no
/// folder descriptor. Replaces a socket at which no process listens. No client can connect yet, as
/// the new socket does not listen.
static int make_file(const struct control_socket *made, mode_t mode, struct failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                                made->folder, made->name);
    int result;

    if (length >= (int)sizeof address.sun_path)
        return fail(made->path, too_long, ENAMETOOLONG, failure);
    result = bind_with_mode(made->fd, &address, mode);
    if (result == -EADDRINUSE) {
        result = remove_stale(made, &address, failure);
        if (result < 0)
            return result;
        result = bind_with_mode(made->fd, &address, mode);
    }
    return result < 0 ? fail_bind(made->path, -result, failure) : 0;
}

/// Sets owner and group of the open file (O_PATH) if they differ from the options, and its mode if
/// the socket was taken over. If nothing differs, no rights are needed.
/// - Returns 0, or -errno with failure filled in.
static int give_file(int file, const struct options *options, bool is_taken, uid_t owner,
                     gid_t group, struct failure *failure) {
    char path[PATH_BYTES];
    struct stat found;

    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (fstat(file, &found) < 0)
        return fail_bind(options->control, errno, failure);
    if (owner == found.st_uid)
        owner = (uid_t)-1;
    if (group == found.st_gid)
        group = (gid_t)-1;
    if (is_taken && (found.st_mode & ALLPERMS) != options->control_mode &&
        chmod(path, options->control_mode) < 0)
        return fail_bind(options->control, errno, failure);
    if ((owner != (uid_t)-1 || group != (gid_t)-1) &&
        fchownat(file, "", owner, group, AT_EMPTY_PATH) < 0) {
        const int error = errno;

        failure_set(failure, LOG_EXIT_USAGE,
                    "control socket %s: can't be given to %s: %s: start as root or as a member of "
                    "the group (SupplementaryGroups= in the unit), or leave --control-owner out",
                    options->control, options->control_owner, strerror(error));
        return -error;
    }
    return 0;
}

/// Sets the owner and group of the socket's file if the options contain them. Also sets the file's
/// mode if the socket was taken over (is_taken). Listens at the socket. Records the file's
/// identity, owner, group and mode. Fails if the file is no socket or has a second link; the file
/// is then unchanged.
static int open_made(struct control_socket *made, const struct options *options, bool is_taken,
                     uid_t owner, gid_t group, struct failure *failure) {
    const int file = openat(made->folder, made->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat found;
    int result = 0;

    if (file < 0)
        return fail_bind(made->path, errno, failure);
    if (fstat(file, &found) < 0 || !S_ISSOCK(found.st_mode) || found.st_nlink != 1)
        result = fail(made->path, no_socket, EEXIST, failure);
    if (result == 0)
        result = give_file(file, options, is_taken, owner, group, failure);
    if (result == 0 && (fstat(file, &found) < 0 || listen(made->fd, BACKLOG) < 0)) {
        result = -errno;
        failure_set_start(failure, "listen", -result);
    }
    close(file);
    if (result < 0)
        return result;
    made->device = found.st_dev;
    made->inode = found.st_ino;
    made->access = (struct control_access){
        .starter = getuid(), .owner = found.st_uid, .group = found.st_gid, .mode = found.st_mode};
    return 0;
}

/// Opens the folder of the socket's file. Returns 0, or -errno with failure filled in.
static int open_folder(struct control_socket *made, struct failure *failure) {
    if (strlen(made->path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return fail(made->path, too_long, ENAMETOOLONG, failure);
    made->folder = privilege_path_folder(made->path, &made->name);
    return made->folder < 0 ? fail_bind(made->path, -made->folder, failure) : 0;
}

static void close_both(const struct control_socket *made) {
    if (made->fd >= 0)
        close(made->fd);
    if (made->folder >= 0)
        close(made->folder);
}

int control_socket_open(struct control_socket *opened, const struct options *options, int listener,
                        struct failure *failure) {
    struct control_socket made = {.fd = listener, .path = options->control, .folder = -1};
    uid_t owner;
    gid_t group;
    int result = parse_owner(options->control_owner, &owner, &group, failure);

    if (result == 0)
        result = open_folder(&made, failure);
    if (result < 0)
        goto failed;
    if (listener < 0) {
        made.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (made.fd < 0) {
            result = -errno;
            failure_set_start(failure, "socket", -result);
            goto failed;
        }
        result = make_file(&made, options->control_mode, failure);
        if (result < 0)
            goto failed;
    }
    result = open_made(&made, options, listener >= 0, owner, group, failure);
    if (result < 0) {
        if (listener < 0)
            unlinkat(made.folder, made.name, 0);
        goto failed;
    }
    *opened = made;
    return 0;
failed:
    close_both(&made);
    return result;
}

void control_socket_listen_again(int listener) {
    (void)listen(listener, BACKLOG); // can't fail: the socket listens already
}

void control_socket_close(const struct control_socket *socket, bool remove) {
    struct stat file;

    if (remove && fstatat(socket->folder, socket->name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
        file.st_dev == socket->device && file.st_ino == socket->inode)
        unlinkat(socket->folder, socket->name, 0);
    close_both(socket);
}
