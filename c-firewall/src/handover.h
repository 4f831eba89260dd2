// SPDX-License-Identifier: GPL-2.0-or-later
// One firewall takes the place of another, of either twin, and no packet is lost.
//
// Theory of operation: the new process does what can fail (its policy is read and compiled) and
// then asks the old one by its control socket (docs/CONTROL.md, `upgrade`). The old one stops its
// workers between two batches; from now on packets wait in the sockets of the queues. It says what
// it counted, gives the sockets away (queue_adopt.h tells how they go on) and waits. The new one
// adopts them, starts its workers - here the pause ends - and says "taken"; the old one says that
// it heard, and ends without unbinding anything. It is the old one that decides: until it has heard
// "taken" it goes on by itself if anything is wrong with the new one (it ends, is silent, is no
// firewall), and a new one that is not told that it was heard ends, and leaves the queues alone.
//
// All waiting is bounded by HANDOVER_GIVE_MS and HANDOVER_TAKE_MS, from the request to the end.
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "carry.h"
#include "counts.h"
#include "flow.h"
#include "handover_channel.h"
#include "log.h"
#include "options.h"
#include "queue_adopt.h"
#include "stats.h"

enum {
    HANDOVER_GIVE_MS = 5000,  // that the old one waits for the new one
    HANDOVER_TAKE_MS = 10000, // the other way round: it may have to wait for another that hangs
    HANDOVER_VERSION = 1,     // of what they say
};

struct state;

/// Descriptors beside those of queues, called as the options are that they come from.
enum handover_fd { HANDOVER_CONTROL, HANDOVER_METRICS, HANDOVER_EVENTS, HANDOVER_FD_COUNT };

/// A queue. Must lie aligned to STATS_ALIGN.
struct handover_queue {
    struct stats stats; // of its worker
    uint16_t number;
    uint64_t stalled; // packets that the guard answered
    struct queue_given given;
};

/// What one process tells another, and what the other has of it.
struct handover {
    int64_t pid;         // of the old one
    uint32_t generation; // of its policy; 0 = none
    uint64_t counts[COUNT_COUNT];
    uint32_t queue_count;
    struct handover_queue *queues;
    // The rules of its policy with their state, for carry_begin and carry_end, which take counters
    // and logs from it. What the side borrows is in what follows.
    struct carry_side side;
    struct flow_counter *counters;
    uint64_t *logged;
    struct flow_limit *limits;
    struct flow flow;
    // What the options of these names say at the old one; NULL = nothing.
    char *options[HANDOVER_FD_COUNT];
    int fds[HANDOVER_FD_COUNT];      // -1 = none, or of no use, as our option says something else
    struct handover_channel channel; // to the old one
    uint64_t asked_ns;               // of wait_clock, when the old one was asked
};

/// Gives everything to a new process: to be called by the main thread.
/// - client_fd: the connection on which it asked; nothing has been said there.
/// - kind: its backend.
/// - fds: ours, by enum handover_fd; -1 = none.
/// - taken: whether the new one runs. Then the workers are stopped and their queues released, and
///   this process has to end without touching what it gave. Otherwise they run as before, and
///   stderr and COUNT_UPGRADES_FAILED tell why.
/// - Returns 0, client_fd closed; or -errno with failure filled in, and nothing was said.
int handover_give(struct state *state, int client_fd, enum queue_kind kind,
                  const int fds[HANDOVER_FD_COUNT], bool *taken, struct failure *failure);

/// Asks the process at options->take_over for everything. Its workers stop; until handover_taken it
/// takes them up again when the connection ends.
/// - Returns 0, or -errno with failure filled in and everything closed and freed: nobody answers,
/// or
///   a stranger, or one whose queues are others than options says.
int handover_take(const struct options *options, struct handover *taken, struct failure *failure);

/// Tells the old process that the workers run, and waits until it lets go.
/// - Returns 0, or -errno with failure filled in: the old process goes on, so that this one has to
///   end.
int handover_taken(struct handover *taken, struct failure *failure);

/// Frees what handover_take made, and closes the descriptors that were not taken out of it (by -1
/// in their place).
void handover_free(struct handover *taken);

#endif
