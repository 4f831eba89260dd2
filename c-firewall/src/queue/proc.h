// SPDX-License-Identifier: GPL-2.0-or-later
// Facts about a queue in /proc: the kernel's counters, and the owner.
#ifndef QUEUE_PROC_H
#define QUEUE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define QUEUE_PROC_QUEUES "/proc/net/netfilter/nfnetlink_queue"
#define QUEUE_PROC_NETLINK "/proc/net/netlink"
// Environment variable with the number of a descriptor of QUEUE_PROC_QUEUES.
#define QUEUE_PROC_GIVEN "TWINWALL_FIGURES_FD"
// Name of the guard's process, which also has the owner's socket.
#define QUEUE_PROC_GUARD "firewall-guard"

enum {
    // Size of a process's name with its final NUL; the kernel's has at most 16 bytes.
    QUEUE_PROC_COMM_BYTES = 64,
};

/// Figures of a queue in QUEUE_PROC_QUEUES (seq_show in net/netfilter/nfnetlink_queue.c). All
/// counters have 32 bits and wrap.
struct queue_figures {
    uint32_t portid;  // netlink port of the owner
    uint32_t waiting; // number of packets sent to the owner that have no verdict yet (queue_total)
    // Number of packets dropped because the queue had reached its length (queue_dropped).
    uint32_t queue_full;
    // Number of packets dropped because the owner's socket was full (user_dropped).
    uint32_t user_drop;
    // ID of the last packet (id_sequence): the number of all packets meant for the owner's socket.
    uint32_t offered;
};

/// Process that owns a netlink socket.
struct queue_owner {
    pid_t pid;
    // Name of the process; '?' stands for bytes that are not printable.
    char comm[QUEUE_PROC_COMM_BYTES];
};

/// Finds a queue in the text of QUEUE_PROC_QUEUES. Lines of another format are skipped.
/// - Returns 0, or -ENOENT, figures untouched, if it is not listed.
int queue_proc_parse_figures(const char *text, uint16_t number, struct queue_figures *figures);

/// Finds the inode of the NETLINK_NETFILTER socket with a port in the text of QUEUE_PROC_NETLINK.
/// - Returns 0, or -ENOENT, inode untouched, if it is not listed.
int queue_proc_parse_inode(const char *text, uint32_t portid, uint64_t *inode);

/// Returns true if a link in /proc/PID/fd (e.g. "socket:[1234]") is the socket with this inode.
bool queue_proc_is_socket(const char *link, uint64_t inode);

/// Opens QUEUE_PROC_QUEUES for the rest of the program's life, because the program may lose the
/// right to open it. The program that started this one may have opened it already
/// (QUEUE_PROC_GIVEN).
/// - Returns 0 or -errno.
int queue_proc_open(void);

/// Reads a queue's figures in this network namespace.
/// - Returns 0, -ENOENT if no process is bound to it, or the -errno of reading.
int queue_proc_figures(uint16_t number, struct queue_figures *figures);

/// Finds the process that has the netlink port open; the guard only if there is no other.
/// - Returns 0, -ENOENT if it is not visible (another PID namespace, no permission), or the -errno
///   of reading.
int queue_proc_owner(uint32_t portid, struct queue_owner *owner);

#endif
