// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: getsockopt
#include "control/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

int control_peer_read(int fd, struct control_peer *peer) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    socklen_t groups_bytes = CONTROL_PEER_GROUPS_MAX * sizeof(gid_t);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
        return -errno;
    peer->pid = credentials.pid;
    peer->uid = credentials.uid;
    peer->groups[0] = credentials.gid;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, &peer->groups[1], &groups_bytes) < 0)
        groups_bytes = 0;
    peer->group_count = 1 + groups_bytes / sizeof(gid_t);
    return 0;
}

static bool is_member(const struct control_peer *peer, gid_t group) {
    for (uint32_t i = 0; i < peer->group_count; i++)
        if (peer->groups[i] == group)
            return true;
    return false;
}

bool control_peer_may_ask(const struct control_peer *peer, const struct control_access *access,
                          uid_t runs_as) {
    if (peer->uid == 0 || peer->uid == access->starter || peer->uid == access->owner ||
        peer->uid == runs_as)
        return true;
    return (access->mode & S_IWGRP) && is_member(peer, access->group);
}

bool control_peer_may_take_over(uid_t uid, uid_t runs_as) { return uid == 0 || uid == runs_as; }
