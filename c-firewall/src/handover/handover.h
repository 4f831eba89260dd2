// SPDX-License-Identifier: GPL-2.0-or-later
// Upgrade: one firewall takes the place of another, of either twin, and no packet is lost.
//
// Theory of operation: all slow steps come first, while the old process filters (handover_take.h,
// handover_give.h). The new process reads and compiles its policy and connects to the control
// socket of the old one (docs/CONTROL.md, `upgrade`). The old process sends its state, descriptors
// of the queues' sockets (queue_adopt.h describes how they are used), and the rules of its policy.
// The new process pairs these rules with its own, adopts the sockets, and gives up its rights. Then
// it sends "commit". The old process stops its workers between two batches: from now on packets
// wait in the sockets. It sends the states (counts, counters of queues, fill levels of limits,
// bytes used by quotas) in an order that both processes know by now. If both policies read names,
// it also sends each worker's connections; if both policies learn addresses, the learned addresses.
// The new process stores all of it and starts its workers: here the pause ends. Meanwhile the old
// process sends the sums (values of the policy's counters and logs). The new process adds them and
// sends "taken". The old process confirms, and ends without unbinding the queues.
//
// The old process decides the outcome: until it has confirmed "taken" it resumes filtering if
// anything is wrong with the new process (it ended, does not answer, or is no firewall). A new
// process that receives no confirmation makes sure that it can't be sent any more, ends, and does
// not touch the queues. HANDOVER_PREPARE_MS bounds the time before "commit", HANDOVER_PAUSE_MS the
// time for which the old workers stand still.
#ifndef HANDOVER_HANDOVER_H
#define HANDOVER_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counts.h"
#include "base/log.h"
#include "handover/channel.h"
#include "handover/connections.h"
#include "handover/learned.h"
#include "options/options.h"
#include "ruleset/migration.h"
#include "worker/worker.h"

enum {
    // Maximum time from the request of an upgrade to its "commit", in milliseconds; packets do not
    // wait meanwhile.
    HANDOVER_PREPARE_MS = 15000,
    // Time from "commit" within which the old process must receive "taken", in milliseconds;
    // otherwise it resumes filtering.
    HANDOVER_PAUSE_MS = 2000,
};

// Commands of the new process (COMMIT, TAKEN), and the line by which the old process confirms TAKEN
// (HEARD).
#define HANDOVER_COMMIT "commit"
#define HANDOVER_TAKEN "taken"
#define HANDOVER_HEARD "{\"ok\":true}\n"
// Names that are sent with the descriptors of memory files (handover/memory); each file contains
// one part of the state.
#define HANDOVER_RULES "rules"
#define HANDOVER_STATES "states"
#define HANDOVER_CONNECTIONS "connections"
#define HANDOVER_LEARNED "learned"
#define HANDOVER_SUMS "sums"

/// Kinds of the descriptors that options open, named like these options.
enum handover_fd { HANDOVER_CONTROL, HANDOVER_EVENTS, HANDOVER_FD_COUNT };

/// Places (indexes) in this process's array for the numbers that another process sends in the order
/// of its names.
struct handover_places {
    uint32_t count;
    uint32_t *of; // place of each number that the other process sends; HANDOVER_UNKNOWN = none
};

#define HANDOVER_UNKNOWN UINT32_MAX

/// State that the old process of an upgrade sends. After handover_take_commit, also the results of
/// adopting it. handover_free frees it.
struct handover {
    int64_t pid;         // process ID of the old firewall
    uint32_t generation; // generation of the old policy; 0 = no policy
    uint32_t queue_count;
    struct worker_handover *queues;
    uint64_t counts[COUNT_COUNT];
    // Indexes in this process's arrays for the counts that the old process sends, and for the
    // counters of a queue.
    struct handover_places count_places, stat_places;
    // True if the old policy reads names; after handover_take_commit, true if both policies read
    // names. followed_most is the largest number of connections of an old worker, before the
    // workers stop.
    bool connections;
    uint32_t followed_most;
    // Numbers of connections that were transferred, and that were left out.
    struct handover_connections_taken followed;
    // Name of the invalid part because of which all connections were refused; NULL if they were
    // accepted.
    const char *refused;
    // True if the old policy has sets that learn addresses; after handover_take_commit, true if
    // both policies have such sets.
    bool learns;
    // Numbers of learned addresses: transferred, left out, and of sets that the new policy does not
    // have.
    struct handover_learned_taken learned;
    // Name of the invalid part because of which all learned addresses were refused; NULL if they
    // were accepted.
    const char *unlearned;
    struct migration_side side; // rules of the old policy
    struct migration migration; // pairs of rules that both policies have, if there is a new policy
    struct migration_states states; // values of the old policy's limits and quotas
    // Values of --control and --events in the old process, with absolute paths; NULL = not set.
    char *options[HANDOVER_FD_COUNT];
    // Descriptors that the old process opened for --control and --events. -1 = none, or this
    // process has another value of the option.
    int fds[HANDOVER_FD_COUNT];
    int rules; // memory file with the old policy's rules, not read yet; -1 = none
    struct handover_channel channel; // channel to the old process
    uint64_t committed_ns;           // time at which "commit" was sent (wait_clock)
    // Time between "commit" and the start of the workers, in which packets waited.
    uint64_t waited_ns;
};

/// Initialises an empty state, which handover_free accepts.
void handover_init(struct handover *handover);

/// Makes the values of --control and --events with absolute paths, by which two processes find out
/// whether both have the same. Must be called before the sandbox, which does not allow getcwd.
/// - values: out: the values, indexed by enum handover_fd, which the caller frees; NULL = not set.
/// - Returns 0, or -ENOMEM with `values` untouched.
int handover_values(const struct options *options, char *values[static HANDOVER_FD_COUNT]);

/// Fills in the failure of the backend classic, which can't take over queues. Returns -EINVAL.
int handover_fail_classic(struct failure *failure);

/// Fills in the failure for an unexpected line. Returns -EPROTO.
/// - whose: "old" or "new": the firewall that sent it.
int handover_fail_line(const char *whose, struct failure *failure);

/// Returns true if a line is a JSON object that has the given value at a key.
/// - value: a string; NULL = the literal true.
bool handover_says(const char *line, const char *key, const char *value);

/// Frees everything, and closes the descriptors that are not replaced by -1.
void handover_free(struct handover *handover);

#endif
