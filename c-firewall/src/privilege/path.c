// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat newfstatat geteuid close
#include "privilege/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/// Returns true if only root and this process's user can have written to a folder.
static bool is_ours(int folder) {
    struct stat found;

    return fstat(folder, &found) == 0 && (found.st_uid == 0 || found.st_uid == geteuid()) &&
           !(found.st_mode & (S_IWGRP | S_IWOTH));
}

/// Opens a folder within a folder. Follows a link only if no user except root and this process's
/// user can have created it. Returns the descriptor or -errno.
static int step(int folder, const char *name) {
    int next = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat found;
    int error = 0;

    if (next < 0)
        return -errno;
    if (fstat(next, &found) < 0)
        error = errno;
    else if (!S_ISDIR(found.st_mode) && !S_ISLNK(found.st_mode))
        error = ENOTDIR;
    else if (S_ISLNK(found.st_mode) && !is_ours(folder))
        error = ELOOP;
    if (error == 0 && S_ISDIR(found.st_mode))
        return next;
    close(next);
    if (error != 0)
        return -error;
    next = openat(folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return next < 0 ? -errno : next;
}

int privilege_path_folder(const char *path, const char **name) {
    const char *const slash = strrchr(path, '/');
    const char *const last = slash ? slash + 1 : path;
    int folder = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (folder >= 0 && *last == '\0') {
        close(folder);
        return -EISDIR;
    }
    if (folder < 0)
        return -errno;
    while (path < last) {
        const size_t length = strcspn(path, "/");

        if (length > 0) {
            char part[NAME_MAX + 1];
            int next;

            snprintf(part, sizeof part, "%.*s", (int)length, path);
            next = length < sizeof part ? step(folder, part) : -ENAMETOOLONG;
            close(folder);
            if (next < 0)
                return next;
            folder = next;
        }
        path += length + 1;
    }
    *name = last;
    return folder;
}
