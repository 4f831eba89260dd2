// SPDX-License-Identifier: GPL-2.0-or-later
// The proof that who asks for an upgrade has CAP_NET_ADMIN in this network namespace, by which
// alone queues may be taken.
//
// Theory of operation: the kernel lets only who has that capability send a netlink message of
// NETLINK_NETFILTER to another process (netlink_sendmsg and netlink_allowed in
// net/netlink/af_netlink.c: it asks for the capability in the user namespace of the sender's
// network namespace, at the time of the call), and finds the receiver in the sender's network
// namespace only. So the firewall has such a socket, tells a client its port and the connection's
// number, and the client sends the number there. The kernel says from which process the message is;
// it must be the one that connected, so that a proof of one's own can't be passed on as another's.
// Nothing of /proc is read, which may say something else a moment later.
#ifndef CONTROL_PROOF_H
#define CONTROL_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"

enum {
    // The most proofs that are kept until somebody asks for an upgrade by them: as many as there
    // are clients.
    CONTROL_PROOFS_MAX = 16,
    CONTROL_PROOF_BYTES = 20, // of a number, as text
};

/// That a process has shown what it can.
struct proof {
    pid_t pid;
    uint64_t number; // of its connection
};

struct control_proof {
    int fd;
    uint32_t port;  // of the socket: where proofs are sent to
    uint32_t count; // that have come so far
    struct proof came[CONTROL_PROOFS_MAX];
};

/// Makes a socket of the kind that proofs are sent from and to. Returns it, or -errno.
int control_proof_make_socket(void);

/// Opens the socket. To be called before the sandbox stands.
/// - Returns 0, or -errno with failure filled in.
int control_proof_open(struct control_proof *proof, struct failure *failure);

/// Whether a process has sent its connection's number. Looks at all that has come.
bool control_proof_has_come(struct control_proof *proof, const struct proof *wanted);

void control_proof_close(struct control_proof *proof);

#endif
