// SPDX-License-Identifier: GPL-2.0-or-later
// File of the control socket: created so that no client can connect before mode and owner are set,
// and removed only if it belongs to this socket or no process listens at it. All operations use the
// folder's descriptor and follow no link, because root runs them in folders where other users may
// write.
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/log.h"
#include "control/peer.h"
#include "options/options.h"

/// Listening control socket and its file.
struct control_socket {
    int fd;
    const char *path;
    int folder;       // descriptor of the folder of the socket's file
    const char *name; // name of the file in the folder
    dev_t device;     // device and inode, which identify the file before it is removed
    ino_t inode;
    struct control_access access;
};

/// Creates the listening socket at options->control.
/// - listener: socket that was taken over from another process, or -1; its file gets the mode and
///   owner of the options. Owned by the control socket from now on, also after a failure.
/// - Returns 0, or -errno with failure filled in and *opened untouched, for example if the file is
///   no socket or another process listens at it, if the folder does not exist, or if the owner is
///   unknown.
int control_socket_open(struct control_socket *opened, const struct options *options, int listener,
                        struct failure *failure);

/// Makes this process the listener again, after a new firewall has listened at the socket in an
/// upgrade that failed: clients learn from the kernel (SO_PEERCRED) which process listened last.
void control_socket_listen_again(int listener);

/// Closes the socket.
/// - remove: also removes the file, if it still belongs to this socket and the process still has
///   the rights.
void control_socket_close(const struct control_socket *socket, bool remove);

#endif
