// SPDX-License-Identifier: GPL-2.0-or-later
// Proof that the client of an upgrade has CAP_NET_ADMIN in this network namespace, the capability
// that a process needs to bind queues.
//
// Theory of operation: only a process with CAP_NET_ADMIN can send a netlink message of
// NETLINK_NETFILTER to another process. The kernel checks it at the time of the call, in the user
// namespace of the sender's network namespace, and it finds the receiver only in that network
// namespace (netlink_sendmsg and netlink_allowed in net/netlink/af_netlink.c). So the firewall has
// such a socket. It sends the socket's port and the number of the connection to the client, and the
// client sends the number to this port. The kernel reports the process that sent the message. This
// must be the process that connected to the control socket, so that no process can use another
// process's proof. Nothing is read from /proc, where the answer may differ a moment later.
#ifndef CONTROL_PROOF_H
#define CONTROL_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"

enum {
    // Maximum number of received proofs of CAP_NET_ADMIN that are stored for later upgrade
    // requests, as many as there can be clients. A newer proof replaces the oldest.
    CONTROL_PROOFS_MAX = 16,
    CONTROL_PROOF_BYTES = 20, // maximum length of a connection's number as text, in bytes
};

/// Proof by a process that it has CAP_NET_ADMIN.
struct proof {
    pid_t pid;
    uint64_t number; // number of the process's connection to the control socket
};

/// Netlink socket that receives the proofs of processes that they have CAP_NET_ADMIN, and the last
/// CONTROL_PROOFS_MAX of these proofs.
struct control_proof {
    int fd;
    uint32_t port;  // netlink port of the socket, to which clients send proofs of CAP_NET_ADMIN
    uint32_t count; // number of proofs received so far
    struct proof came[CONTROL_PROOFS_MAX];
};

/// Opens a netlink socket that can send and receive proofs of CAP_NET_ADMIN. Returns it, or -errno.
int control_proof_make_socket(void);

/// Opens and binds the socket that receives proofs of CAP_NET_ADMIN. Must be called before the
/// sandbox is in place.
/// - Returns 0, or -errno with failure filled in.
int control_proof_open(struct control_proof *proof, struct failure *failure);

/// Receives all waiting messages. Returns true if the wanted proof of CAP_NET_ADMIN is one of the
/// last CONTROL_PROOFS_MAX that came.
bool control_proof_has_come(struct control_proof *proof, const struct proof *wanted);

void control_proof_close(struct control_proof *proof);

#endif
