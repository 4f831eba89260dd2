// SPDX-License-Identifier: GPL-2.0-or-later
// One firewall takes the place of another, of either twin, and no packet is lost.
//
// Theory of operation: all that takes long comes first, while the old process filters
// (handover_take.h, handover_give.h). The new one reads and compiles its policy and asks the old
// one by its control socket (docs/CONTROL.md, `upgrade`). That says what it is, gives descriptors
// of the queues' sockets away (queue_adopt.h tells how they go on), and tells the rules of its
// policy; the new one finds those of its own among them, adopts the sockets, and gives up its
// rights. Then it says "commit". The old one stops its workers between two batches: from now on
// packets wait in the sockets. It passes on the states, how full limits are and what quotas have
// used, in numbers whose places both know by now, and, if both policies read names, what each
// worker knows of its connections, and what sets have learnt, if both have such; the new one takes
// them over and starts its workers: here the pause ends. Meanwhile the old one passes on the sums,
// what counters counted; the new one adds them and says "taken"; the old one says that it heard,
// and ends without unbinding anything.
//
// It is the old one that decides: until it has heard "taken" it goes on by itself if anything is
// wrong with the new one (it ends, is silent, is no firewall), and a new one that is not told that
// it was heard ends, and leaves the queues alone. HANDOVER_PREPARE_MS bounds what comes before
// "commit", HANDOVER_PAUSE_MS how long the old one's workers stand still.
#ifndef HANDOVER_HANDOVER_H
#define HANDOVER_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counts.h"
#include "base/log.h"
#include "handover/channel.h"
#include "handover/connections.h"
#include "handover/learned.h"
#include "ruleset/migration.h"
#include "worker/worker.h"

enum {
    HANDOVER_PREPARE_MS = 15000, // from the request to "commit"; packets do not wait
    HANDOVER_PAUSE_MS = 2000,    // from "commit" to "taken" for the old one, which goes on then
};

// Messages of the new firewall, and the last one to it.
#define HANDOVER_COMMIT "commit"
#define HANDOVER_TAKEN "taken"
#define HANDOVER_HEARD "{\"ok\":true}\n"
// The names of what is passed on beside queues and what options name.
#define HANDOVER_RULES "rules"
#define HANDOVER_STATES "states"
#define HANDOVER_CONNECTIONS "connections"
#define HANDOVER_LEARNED "learned"
#define HANDOVER_SUMS "sums"

/// Descriptors beside those of queues, called as the options are that they come from.
enum handover_fd { HANDOVER_CONTROL, HANDOVER_EVENTS, HANDOVER_FD_COUNT };

/// Numbers that come in the order of names: which of ours each is.
struct handover_places {
    uint32_t count;
    uint32_t *of; // HANDOVER_UNKNOWN = none
};

#define HANDOVER_UNKNOWN UINT32_MAX

/// State that one process passes to another, and its part that was adopted. Closed by
/// handover_free.
struct handover {
    int64_t pid;         // of the old one
    uint32_t generation; // of its policy; 0 = none
    uint32_t queue_count;
    struct worker_handover *queues;
    uint64_t counts[COUNT_COUNT];
    // The places of each count, and of each counter of a queue, that will come.
    struct handover_places count_places, stat_places;
    // Its policy reads names, so that its workers know connections, one as many as followed_most;
    // then, that ours does, too.
    bool connections;
    uint32_t followed_most;
    struct handover_connections_taken followed; // outcome of the connections
    // Why they were not taken: the part that is not as it should be; NULL = they were.
    const char *refused;
    // Its policy has sets that learn; then, that ours has, too.
    bool learns;
    struct handover_learned_taken learned; // outcome of the learned addresses
    const char *unlearned;                 // why it was not taken, as refused
    struct migration_side side;            // the rules of its policy
    struct migration migration;            // outcome in our policy, if there is one
    struct migration_states states;        // of its policy
    // Values of the options of these names at the old firewall; NULL = none.
    char *options[HANDOVER_FD_COUNT];
    int fds[HANDOVER_FD_COUNT];      // -1 = none, or of no use, as our option says something else
    int rules;                       // the memory of rules; -1 = none
    struct handover_channel channel; // to the old one
    uint64_t committed_ns;           // of wait_clock, when "commit" was said
    uint64_t waited_ns;              // how long packets waited
};

/// Makes one of nothing, which handover_free can be given.
void handover_init(struct handover *handover);

/// Fills in the failure of a backend that can't take part. Returns -EINVAL.
int handover_fail_classic(struct failure *failure);

/// Fills in the failure of a line that has no place. whose: "old", "new". Returns -EPROTO.
int handover_fail_line(const char *whose, struct failure *failure);

/// Whether a line of JSON says so under a key. value: NULL = true.
bool handover_says(const char *line, const char *key, const char *value);

/// Frees all, and closes the descriptors that were not taken out of it (by -1 in their place).
void handover_free(struct handover *handover);

#endif
