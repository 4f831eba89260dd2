// SPDX-License-Identifier: GPL-2.0-or-later
// What /proc says of a queue: the kernel's own counters, and who owns it.
#ifndef QUEUE_PROC_H
#define QUEUE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define QUEUE_PROC_QUEUES "/proc/net/netfilter/nfnetlink_queue"
#define QUEUE_PROC_NETLINK "/proc/net/netlink"
#define QUEUE_PROC_GIVEN                                                                           \
    "TWINWALL_FIGURES_FD" // the variable that names a descriptor of QUEUE_PROC_QUEUES
#define QUEUE_PROC_GUARD                                                                           \
    "firewall-guard" // the name of the guard, which has the socket beside its owner

enum {
    QUEUE_PROC_COMM_BYTES =
        64, // of a process' name with its final NUL (the kernel gives at most 16)
};

/// A line of QUEUE_PROC_QUEUES (seq_show in net/netfilter/nfnetlink_queue.c). All counters have
/// 32 bits and wrap.
struct queue_figures {
    uint32_t portid;     // netlink port of the owner
    uint32_t waiting;    // packets given to the owner, without a verdict yet (queue_total)
    uint32_t queue_full; // packets dropped because the queue was at its length (queue_dropped)
    uint32_t user_drop;  // packets dropped because the owner's socket was full (user_dropped)
    uint32_t
        offered; // id of the last packet (id_sequence): all that were meant for the owner's socket
};

/// A process that owns a netlink socket.
struct queue_owner {
    pid_t pid;
    char comm[QUEUE_PROC_COMM_BYTES]; // bytes that are not printable are shown as '?'
};

/// Finds a queue in the text of QUEUE_PROC_QUEUES. Lines that are not understood are skipped.
/// - Returns 0, or -ENOENT, figures untouched, if it is not listed.
int queue_proc_parse_figures(const char *text, uint16_t number, struct queue_figures *figures);

/// Finds the inode of the NETLINK_NETFILTER socket with this port in the text of
/// QUEUE_PROC_NETLINK.
/// - Returns 0, or -ENOENT, inode untouched, if it is not listed.
int queue_proc_parse_inode(const char *text, uint32_t portid, uint64_t *inode);

/// Whether a link of /proc/PID/fd (e.g. "socket:[1234]") is the socket with this inode.
bool queue_proc_is_socket(const char *link, uint64_t inode);

/// Opens QUEUE_PROC_QUEUES for the rest of the program's life: it may not have the rights later.
/// Who has started the program may have opened it, as QUEUE_PROC_GIVEN tells.
/// - Returns 0 or -errno.
int queue_proc_open(void);

/// Reads a queue's figures in this network namespace.
/// - Returns 0, -ENOENT if no one is bound to it, or the -errno of reading.
int queue_proc_figures(uint16_t number, struct queue_figures *figures);

/// Finds the process that holds the netlink port; its guard only if there is no other.
/// - Returns 0, -ENOENT if it is not to be seen (another PID namespace, not permitted), or the
///   -errno of reading.
int queue_proc_owner(uint32_t portid, struct queue_owner *owner);

#endif
