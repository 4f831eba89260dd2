// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: newfstatat unlink
#include "control_socket.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "given.h"

enum { BACKLOG = 16 };

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

/// The number that a text is, if it is one.
static bool read_id(const char *text, uint32_t *id) {
    return given_read_number(text, text + strlen(text), UINT32_MAX - 1, id);
}

/// Reads USER or USER:GROUP, each a name or a number. NULL leaves both -1: whoever makes the file.
/// - Returns 0, or -errno with failure filled in.
static int read_owner(const char *text, uid_t *owner, gid_t *group, struct failure *failure) {
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
    else if (!read_id(user, owner))
        result = fail_unknown("user", user, failure);
    if (result == 0 && colon) {
        known_group = getgrnam(colon + 1);
        if (known_group)
            *group = known_group->gr_gid;
        else if (!read_id(colon + 1, group))
            result = fail_unknown("group", colon + 1, failure);
    }
    free(user);
    return result;
}

/// Tells why bind failed, and what helps.
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
    default:
        failure_set_start(failure, "bind", error);
        return -error;
    }
}

/// Whether somebody listens at the path, and who. It is a socket's.
/// - Returns 0 if nobody does any more, or -errno with failure filled in.
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

/// Removes a socket's file that nobody listens at.
static int remove_stale(const char *path, const struct sockaddr_un *address,
                        struct failure *failure) {
    struct stat found;
    int result;

    if (lstat(path, &found) < 0)
        return errno == ENOENT ? 0 : fail_bind(path, errno, failure);
    if (!S_ISSOCK(found.st_mode))
        return fail(path, "there is a file that is no socket: choose another path", EEXIST,
                    failure);
    result = check_stale(path, address, failure);
    if (result == 0 && unlink(path) < 0 && errno != ENOENT)
        result = fail_bind(path, errno, failure);
    return result;
}

/// Binds with the mode, which the file has from its first moment.
/// - Returns 0 or -errno.
static int bind_with_mode(int fd, const struct sockaddr_un *address, mode_t mode) {
    const mode_t before = umask(~mode & 0777);
    const int result = bind(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;

    umask(before);
    return result;
}

/// Makes the file. Nobody can connect to it, as nobody listens yet.
static int make_file(int fd, const char *path, mode_t mode, struct failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(path);
    int result;

    if (length >= sizeof address.sun_path)
        return fail(path, "a socket's path has at most 107 bytes: choose a shorter one",
                    ENAMETOOLONG, failure);
    memcpy(address.sun_path, path, length);
    result = bind_with_mode(fd, &address, mode);
    if (result == -EADDRINUSE) {
        result = remove_stale(path, &address, failure);
        if (result < 0)
            return result;
        result = bind_with_mode(fd, &address, mode);
    }
    return result < 0 ? fail_bind(path, -result, failure) : 0;
}

/// Gives the file its owner, listens, and keeps what is known of the file.
static int open_made(struct control_socket *socket, const struct options *options, uid_t owner,
                     gid_t group, struct failure *failure) {
    struct stat file;

    if ((owner != (uid_t)-1 || group != (gid_t)-1) && lchown(socket->path, owner, group) < 0) {
        const int error = errno;

        failure_set(failure, LOG_EXIT_USAGE,
                    "control socket %s: can't be given to %s: %s: start as root or leave "
                    "--control-owner out",
                    socket->path, options->control_owner, strerror(error));
        return -error;
    }
    if (lstat(socket->path, &file) < 0 || listen(socket->fd, BACKLOG) < 0) {
        const int error = errno;

        failure_set_start(failure, "listen", error);
        return -error;
    }
    socket->device = file.st_dev;
    socket->inode = file.st_ino;
    socket->access = (struct control_access){
        .starter = getuid(), .owner = file.st_uid, .group = file.st_gid, .mode = file.st_mode};
    return 0;
}

int control_socket_open(struct control_socket *opened, const struct options *options, int listener,
                        struct failure *failure) {
    struct control_socket made = {.fd = listener, .path = options->control};
    uid_t owner;
    gid_t group;
    int result = read_owner(options->control_owner, &owner, &group, failure);

    if (result < 0)
        goto failed;
    if (listener < 0) {
        made.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (made.fd < 0) {
            result = -errno;
            failure_set_start(failure, "socket", -result);
            goto failed;
        }
        result = make_file(made.fd, made.path, options->control_mode, failure);
    } else if (chmod(made.path, options->control_mode) < 0) {
        result = fail_bind(made.path, errno, failure);
    }
    if (result < 0)
        goto failed;
    result = open_made(&made, options, owner, group, failure);
    if (result < 0) {
        if (listener < 0)
            unlink(made.path);
        goto failed;
    }
    *opened = made;
    return 0;
failed:
    if (made.fd >= 0)
        close(made.fd);
    return result;
}

void control_socket_unlink(const struct control_socket *socket) {
    struct stat file;

    if (lstat(socket->path, &file) == 0 && file.st_dev == socket->device &&
        file.st_ino == socket->inode)
        unlink(socket->path);
}
