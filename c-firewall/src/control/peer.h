// SPDX-License-Identifier: GPL-2.0-or-later
// Identity of the control socket's clients, and their permissions.
#ifndef CONTROL_PEER_H
#define CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    // Maximum number of a client's supplementary groups; a client with more counts as a member of
    // its primary group only.
    CONTROL_PEER_GROUPS_MAX = 1024,
};

/// Data that decides which users may send requests: owner, group and mode of the socket's file, and
/// the user who started the program.
struct control_access {
    uid_t starter; // user who started the program
    uid_t owner;   // owner of the socket's file
    gid_t group;   // group of the socket's file
    mode_t mode;   // mode of the socket's file
};

/// User, process and groups of a client.
struct control_peer {
    pid_t pid; // process id; 0 if it is not visible in this pid namespace
    uid_t uid;
    uint32_t group_count;
    // Groups of the client; the first is the primary group of its process.
    gid_t groups[CONTROL_PEER_GROUPS_MAX + 1];
};

/// Reads the credentials of a client, which the kernel stored when the client connected.
/// - fd: connection to the client.
/// - Returns 0 or -errno.
int control_peer_read(int fd, struct control_peer *peer);

/// Returns true if a client may send requests: root, the user who started the program, the user
/// that the program runs as, the owner of the socket's file, and members of the file's group if the
/// group may write to the file.
bool control_peer_may_ask(const struct control_peer *peer, const struct control_access *access,
                          uid_t runs_as);

/// Returns true if a client may take over the firewall, provided that it proves CAP_NET_ADMIN
/// (control/proof). Only root and the user that the firewall runs as may take it over. Other
/// members of the socket file's group may not.
bool control_peer_may_take_over(uid_t uid, uid_t runs_as);

#endif
