// SPDX-License-Identifier: GPL-2.0-or-later
// Detection of a stalled queue from the kernel's figures alone, without side effects.
//
// Theory of operation: the number of answered packets is the number of enqueued packets (offered -
// user drop) minus those that wait. A look is one reading of these figures. If packets wait at a
// look, and the firewall has answered none since the look a deadline before, the firewall stalls.
// The packets up to the last ID of that earlier look have waited for the whole deadline: they are
// due. Answers of the guard itself are not progress. With --fail overload=open a packet that does
// not fit into the socket counts as offered and passes, as if it had been answered. Then the first
// message in the socket decides, too: as long as it stays the same, the firewall receives nothing.
#ifndef GUARD_WATCH_H
#define GUARD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/proc.h"

enum {
    GUARD_WATCH_LOOKS = 4, // number of looks (readings of a queue's counters) per deadline
};

/// Counters of a queue at one reading.
struct guard_watch_look {
    uint32_t waiting;
    uint32_t offered;
    uint32_t enqueued;
    // Number of packets that the firewall answered, without those that the guard answered.
    uint32_t settled;
};

/// State of the detection of stalls for one queue. Zeroed = nothing observed.
struct guard_watch {
    // Latest readings of the queue's counters since the firewall last answered packets, the oldest
    // first.
    struct guard_watch_look looks[GUARD_WATCH_LOOKS + 1];
    uint32_t count; // number of readings in looks
    bool has_head;
    uint32_t head; // ID of the first message in the queue's socket at the last reading
    uint32_t own;  // number of packets that the guard answered
    bool stalls; // true if the guard has answered packets since the firewall last answered a packet
    // Value of enqueued at the oldest reading when the guard last answered; valid with stalls. The
    // guard answered the packets that were enqueued until this reading.
    uint32_t settled;
};

/// Adds a reading of a queue's counters.
/// - head: ID of the first message in the queue's socket; NULL if there is none, or without --fail
///   overload=open.
/// - id: out: ID of the last packet that must be answered.
/// - Returns true with *id set if the packets up to it have waited for the whole deadline, so that
///   the guard must answer them.
bool guard_watch_look(struct guard_watch *watch, const struct queue_figures *figures,
                      const uint32_t *head, uint32_t *id);

/// Records that the guard has answered the packets up to the ID that guard_watch_look returned.
/// - before, after: counters from before and after the answer.
/// - begins: out: true if this is the first answer of the guard since the firewall last answered.
/// - Returns the number of packets that the guard answered. It includes packets that the firewall
///   answered between both readings, because these can't be distinguished.
uint32_t guard_watch_settled(struct guard_watch *watch, const struct queue_figures *before,
                             const struct queue_figures *after, bool *begins);

/// Removes all readings, after a time in which the guard did not run or was paused.
void guard_watch_forget(struct guard_watch *watch);

#endif
