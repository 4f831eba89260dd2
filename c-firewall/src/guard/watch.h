// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a queue stalls, told from the kernel's figures alone. Pure.
//
// Theory of operation: what was answered is what was enqueued (offered - user drop) less what
// waits. If a look finds packets waiting, and the same number answered by the firewall as all looks
// of a deadline before, the firewall stalls; packets up to the last id of the oldest of these looks
// have waited for the whole deadline and are due. What the guard answers itself is no progress.
// With --fail overload=open a packet that the socket has no room for counts as offered and passes,
// which looks as if it had been answered; so there the first message in the socket decides, too: as
// long as it stays the same, nobody takes anything out.
#ifndef GUARD_WATCH_H
#define GUARD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/proc.h"

enum {
    GUARD_WATCH_LOOKS = 4, // in a deadline
};

/// Result of a look.
struct guard_watch_look {
    uint32_t waiting;
    uint32_t offered;
    uint32_t enqueued;
    uint32_t settled; // by the firewall
};

/// Observed state of a queue. Zeroed nothing is.
struct guard_watch {
    struct guard_watch_look looks[GUARD_WATCH_LOOKS + 1]; // without progress, the oldest first
    uint32_t count;                                       // of them
    bool has_head;
    uint32_t head;    // id of the first message in the socket at the last look
    uint32_t own;     // packets that the guard answered
    bool stalls;      // the guard has answered since the firewall last did
    uint32_t settled; // with stalls: enqueued, of the look whose packets the guard answered last
};

/// Adds a look to the statistics.
/// - head: id of the first message in the queue's socket; NULL = none, or it doesn't matter.
/// - Returns true with *id set if packets up to it are due.
bool guard_watch_look(struct guard_watch *watch, const struct queue_figures *figures,
                      const uint32_t *head, uint32_t *id);

/// The guard has answered what was due.
/// - before, after: figures from around the answer.
/// - begins: whether this is the first time since the firewall answered anything
/// - Returns how many packets it answered. What the firewall answered between both readings is
/// among
///   them: nobody can tell.
uint32_t guard_watch_settled(struct guard_watch *watch, const struct queue_figures *before,
                             const struct queue_figures *after, bool *begins);

/// Forgets the looks: the guard itself did not run for a while and can't judge.
void guard_watch_forget(struct guard_watch *watch);

#endif
