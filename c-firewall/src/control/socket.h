// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket's file: made so that nobody can connect before mode and owner are right, and
// removed only if it is ours or nobody's. All is done in the folder that was opened first, without
// following a link: root does it where others may write.
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/log.h"
#include "control/peer.h"
#include "options/options.h"

/// A listening socket and its file.
struct control_socket {
    int fd;
    const char *path;
    int folder;       // of the file
    const char *name; // in it
    dev_t device;     // of the file, so that another's is not removed
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

/// Closes the socket.
/// - remove: the file, too, if it is still this socket's and the rights are still there.
void control_socket_close(const struct control_socket *socket, bool remove);

#endif
