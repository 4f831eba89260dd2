// SPDX-License-Identifier: GPL-2.0-or-later
// The control socket: docs/CONTROL.md. It is served within the main thread's poll loop.
//
// Theory of operation: the loop asks for descriptors and for how long it may sleep, polls, and
// gives what poll said back. Nothing here ever waits: a client has one buffer for its requests and
// at most one answer, and while that is not read nothing more is taken from it. So memory is
// bounded by CONTROL_CLIENTS_MAX, and a client that sends too much or reads too little harms itself
// only.
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
    CONTROL_CLIENTS_MAX = 16,                  // at a time
    CONTROL_OTHERS_MAX = 12,                   // clients of users other than root, at most
    CONTROL_USER_MAX = 8,                      // clients of one user other than root, at most
    CONTROL_FDS_MAX = CONTROL_CLIENTS_MAX + 1, // that control_poll may ask for
};

/// Actions of requests, supplied by the daemon; all are called by control_serve.
struct control_actions {
    void *context;
    /// As snapshot_take.
    int (*snapshot)(void *context, bool with_rules, struct snapshot *snapshot);
    /// The ledger as report_ledger makes it with --json, "reason":"control"; the caller frees it.
    /// NULL: no memory.
    char *(*stats)(void *context);
    /// As workers_list.
    int (*connections)(void *context, uint64_t from, bool undecided, struct listing *listing);
    /// As reload.
    int (*reload)(void *context, struct reload_result *result, struct failure *failure);
    /// Ends as by SIGTERM when no packet waits, or after so many seconds. Returns at once.
    void (*drain)(void *context, uint32_t seconds);
    /// Begins to hand everything over to who is at the other end of client_fd, whom nothing has
    /// been told yet; the loop goes on with it.
    /// - Returns 0: the descriptor and what is said there belong to the action from now on; or
    ///   -errno with failure filled in and the descriptor still the caller's.
    int (*upgrade)(void *context, int client_fd, const char *backend, struct failure *failure);
    /// Sends events to a client that has received {"ok":true}.
    /// - verdicts: of the packets that it wants, bits 1 << enum verdict.
    /// - Returns 0: the descriptor belongs to the action from now on; or -errno (-EBUSY: there are
    /// too
    ///   many such clients) with the descriptor still the caller's.
    int (*tail)(void *context, int client_fd, uint32_t verdicts, bool packets);
};

struct control;

/// Opens the socket at options->control (not NULL), with its mode and owner before a client can
/// connect. To be called while the program still has the rights that this needs, and before it has
/// threads.
/// - listener: -1, or the listening socket of options->control taken from another process; belongs
/// to
///   the control from now on, also when this fails.
/// - actions: copied.
/// - Returns 0, or -errno with failure filled in.
int control_open(struct control **opened, const struct options *options, int listener,
                 const struct control_actions *actions, struct failure *failure);

/// Fills in what to poll for.
/// - room: of at least CONTROL_FDS_MAX.
/// - Returns how many.
size_t control_poll(const struct control *control, struct pollfd *room);

/// Time that the loop may sleep, in ms; -1 = without limit.
int control_timeout(const struct control *control);

/// Does what can be done now. To be called after every poll, also if there was nothing.
/// - fds: what control_poll filled in, with revents.
void control_serve(struct control *control, const struct pollfd *fds, size_t count);

/// The listening socket, to be handed over.
int control_listener(const struct control *control);

/// Closes all. NULL can be given as well.
/// - unlink: removes the socket's file, if it is still this socket's and the rights are still
/// there.
void control_close(struct control *control, bool unlink);

#endif
