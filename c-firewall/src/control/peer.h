// SPDX-License-Identifier: GPL-2.0-or-later
// Who is at the other end of a connection of the control socket, and whether they may ask.
#ifndef CONTROL_PEER_H
#define CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CONTROL_PEER_GROUPS_MAX =
        1024, // of a user; who has more counts as a member of his first group only
};

/// The owner, group and mode of the socket's file, and who started the program: they may ask.
struct control_access {
    uid_t starter; // user who started the program
    uid_t owner;   // of the file
    gid_t group;   // of the file
    mode_t mode;   // of the file
};

/// Identity of the client.
struct control_peer {
    pid_t pid; // 0 if it is not to be seen from here
    uid_t uid;
    uint32_t group_count;
    gid_t groups[CONTROL_PEER_GROUPS_MAX + 1]; // the first is that of the process
};

/// Reads the credentials that the kernel kept when the other end connected.
/// - Returns 0 or -errno.
int control_peer_read(int fd, struct control_peer *peer);

/// Whether they may ask: root, the starter, whom the program runs as, the file's owner, and members
/// of its group if they may write to it.
bool control_peer_may_ask(const struct control_peer *peer, const struct control_access *access,
                          uid_t runs_as);

/// Whether they may take over, once they have shown CAP_NET_ADMIN: root, and whom the program runs
/// as. Who may ask as a member of the group has to be one of them, too.
bool control_peer_may_take_over(uid_t uid, uid_t runs_as);

#endif
