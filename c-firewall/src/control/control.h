// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket (docs/CONTROL.md), served within the main thread's poll loop.
//
// Theory of operation: the main loop asks for the descriptors to poll and for the timeout, polls,
// and passes the result back. Nothing here waits for a client. A client has one buffer for its
// requests and at most one answer; until it has read the answer, nothing more is received from it.
// So the limit CONTROL_CLIENTS_MAX bounds the memory, and a client that sends too much or reads too
// little delays only itself.
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "options/options.h"
#include "state/reload.h"
#include "state/snapshot.h"
#include "worker/workers.h"

enum {
    CONTROL_CLIENTS_MAX = 16, // maximum number of clients at a time
    CONTROL_OTHERS_MAX = 12,  // maximum number of clients of all users other than root
    CONTROL_USER_MAX = 8,     // maximum number of clients of one user other than root
    // Maximum number of descriptors that control_poll returns.
    CONTROL_FDS_MAX = CONTROL_CLIENTS_MAX + 1,
};

/// Actions that requests trigger, supplied by the daemon; control_serve calls them.
struct control_actions {
    void *context;
    /// Fills in a snapshot of the running firewall (snapshot_take).
    int (*snapshot)(void *context, bool with_rules, struct snapshot *snapshot);
    /// Returns the ledger as a line of JSON, as report_ledger makes it with --json, with
    /// "reason":"control"; the caller frees the line. Returns NULL if there is no memory.
    char *(*stats)(void *context);
    /// Fills in a page of the connection listing (workers_list). Fails if the position's worker
    /// does not exist or does not answer.
    /// - from: position at which the page begins.
    /// - undecided: true for only the connections whose names are undecided.
    int (*connections)(void *context, uint64_t from, bool undecided, struct listing *listing);
    /// Reloads the policy (reload).
    int (*reload)(void *context, struct reload_result *result, struct failure *failure);
    /// Ends the process like SIGTERM, as soon as no packet waits, or after `seconds`. Returns at
    /// once.
    void (*drain)(void *context, uint32_t seconds);
    /// Begins an upgrade: the hand-over to the process at the other end of the connection
    /// client_fd. The request `upgrade` has no answer yet. The main loop continues the hand-over.
    /// - backend: name of the new firewall's packet backend.
    /// - Returns 0, and the action owns the descriptor and sends all answers from now on; or -errno
    ///   with failure filled in, and the caller still owns the descriptor.
    int (*upgrade)(void *context, int client_fd, const char *backend, struct failure *failure);
    /// Adds a client to the receivers of events. The first line that it receives is {"ok":true}.
    /// - verdicts: wanted packets, by the bits 1 << enum verdict.
    /// - packets: true if the events include the packets' bytes.
    /// - Returns 0, and the action owns the descriptor from now on; or -errno (-EBUSY: there are
    ///   too many receivers), and the caller still owns the descriptor.
    int (*tail)(void *context, int client_fd, uint32_t verdicts, bool packets);
};

struct control;

/// Opens the socket at options->control (not NULL). A new socket's file has its mode and owner
/// before a client can connect. Must be called before the program drops its privileges and starts
/// threads.
/// - listener: listening socket of options->control that was taken over from another process, or
///   -1; owned by the control socket from now on, also after a failure.
/// - actions: copied.
/// - opened: out: control socket.
/// - Returns 0, or -errno with failure filled in.
int control_open(struct control **opened, const struct options *options, int listener,
                 const struct control_actions *actions, struct failure *failure);

/// Fills in the descriptors to poll with their events.
/// - room: at least CONTROL_FDS_MAX elements.
/// - Returns their number.
size_t control_poll(const struct control *control, struct pollfd *room);

/// Returns the maximum time that the main loop may sleep, in milliseconds; -1 = no limit.
int control_timeout(const struct control *control);

/// Serves all clients without waiting for them, and accepts new clients. Called after every poll,
/// also after a timeout.
/// - fds: array from control_poll, with revents.
void control_serve(struct control *control, const struct pollfd *fds, size_t count);

/// Returns the listening socket, for the hand-over.
int control_listener(const struct control *control);

/// Closes the socket and its clients. NULL is allowed.
/// - unlink: removes the socket's file, if it still belongs to this socket and the process still
///   has the rights.
void control_close(struct control *control, bool unlink);

#endif
