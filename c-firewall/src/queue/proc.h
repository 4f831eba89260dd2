// SPDX-License-Identifier: GPL-2.0-or-later
// Information about a queue from /proc: the kernel's counters, and the process that owns the queue.
#ifndef QUEUE_PROC_H
#define QUEUE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define QUEUE_PROC_QUEUES "/proc/net/netfilter/nfnetlink_queue"
#define QUEUE_PROC_NETLINK "/proc/net/netlink"
// Environment variable with the number of an inherited descriptor of the file QUEUE_PROC_QUEUES.
#define QUEUE_PROC_GIVEN "TWINWALL_FIGURES_FD"
// Name of the guard's process. The guard also holds the netlink socket of the queue's owner.
#define QUEUE_PROC_GUARD "firewall-guard"

enum {
    // Size of a process's name with its final NUL, in bytes; a name of the kernel has at most 16
    // bytes.
    QUEUE_PROC_COMM_BYTES = 64,
};

/// Values of a queue's line in the file QUEUE_PROC_QUEUES (seq_show in
/// net/netfilter/nfnetlink_queue.c). All counters have 32 bits and wrap.
struct queue_figures {
    uint32_t portid; // netlink port of the owner
    // Number of packets that were sent to the owner and have no verdict yet (queue_total).
    uint32_t waiting;
    // Number of packets dropped because the queue was full (queue_dropped); with Linux 6.18 also
    // because the kernel's table of packets was full.
    uint32_t queue_full;
    // Number of packets dropped because the owner's socket was full (user_dropped).
    uint32_t user_drop;
    // ID of the last packet (id_sequence), which is the number of packets that the kernel has tried
    // to send to the owner.
    uint32_t offered;
};

/// Process that owns a netlink socket.
struct queue_owner {
    pid_t pid;
    // Name of the process; '?' stands for bytes that are not printable.
    char comm[QUEUE_PROC_COMM_BYTES];
};

/// Finds a queue's line in the text of QUEUE_PROC_QUEUES, and stores its values in *figures. Skips
/// lines of another format.
/// - Returns 0, or -ENOENT with *figures untouched if the queue is not listed.
int queue_proc_parse_figures(const char *text, uint16_t number, struct queue_figures *figures);

/// Finds the inode of the NETLINK_NETFILTER socket with a netlink port in the text of
/// QUEUE_PROC_NETLINK.
/// - inode: out: the inode.
/// - Returns 0, or -ENOENT with *inode untouched if the socket is not listed.
int queue_proc_parse_inode(const char *text, uint32_t portid, uint64_t *inode);

/// Returns true if a link in /proc/PID/fd (e.g. "socket:[1234]") is the socket with this inode.
bool queue_proc_is_socket(const char *link, uint64_t inode);

/// Opens the file QUEUE_PROC_QUEUES for the rest of the program's life, because the program may
/// lose the right to open it. Uses the inherited descriptor in the environment variable
/// QUEUE_PROC_GIVEN, if there is one.
/// - Returns 0 or -errno.
int queue_proc_open(void);

/// Reads the kernel's counters of a queue in this network namespace.
/// - Returns 0, -ENOENT if the queue is not bound, or the -errno of reading.
int queue_proc_figures(uint16_t number, struct queue_figures *figures);

/// Finds the process that has the socket with a netlink port open. Prefers any other process to the
/// guard.
/// - Returns 0, -ENOENT if the socket is not listed or the process is not visible (another PID
///   namespace, no permission), or the -errno of reading.
int queue_proc_owner(uint32_t portid, struct queue_owner *owner);

#endif
