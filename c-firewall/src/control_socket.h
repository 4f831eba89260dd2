// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket's file: made so that nobody can connect before mode and owner are right, and
// removed only if it is ours or nobody's.
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <sys/stat.h>

#include "control_peer.h"
#include "log.h"
#include "options.h"

/// A listening socket and its file.
struct control_socket {
    int fd;
    const char *path;
    dev_t device; // of the file, so that another's is not removed
    ino_t inode;
    struct control_access access;
};

/// Makes the socket of options->control.
/// - listener: -1, or the listening socket taken from another process, whose file gets the mode and
///   the owner of the options; belongs to the socket from now on, also when this fails.
/// - Returns 0, or -errno with failure filled in and *opened untouched: a file that is no socket or
///   that another process listens at, a folder that is not there, an owner that is unknown.
int control_socket_open(struct control_socket *opened, const struct options *options, int listener,
                        struct failure *failure);

/// Removes the file, if it is still this socket's and the rights are still there.
void control_socket_unlink(const struct control_socket *socket);

#endif
