// SPDX-License-Identifier: GPL-2.0-or-later
// Events as they leave the firewall: lines of JSON like Suricata's (docs/EVENTS.md), to what
// --events names and to clients that follow (`tail`).
//
// Theory of operation: a thread takes the records out of the workers' rings, makes lines of them
// and writes them. Only it touches files, and only it may be kept waiting by one. Its lock is held
// while records become lines, never while lines are written; so any thread may add a line of its
// own (events_tell) or see to it that all that was noted has become lines (events_drain). What
// finds no room is counted and told later, by a line of its own.
#ifndef EVENTS_EVENTS_H
#define EVENTS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "events/types.h"
#include "options/options.h"
#include "worker/event.h"

struct events;

/// Makes the rings, and opens what --events names, if it is given.
/// - inherited: a descriptor of the file that the firewall before had (it is owned from then on);
///   -1 = none.
/// - Returns 0, or -errno with failure filled in.
int events_open(struct events **events, const struct options *options, int inherited,
                struct failure *failure);

/// The ring of the index-th worker; those of all lie side by side.
struct event_ring *events_ring(struct events *events, uint32_t index);

/// The descriptor of the file of --events, to hand over; -1 = none.
int events_fd(struct events *events);

/// Says which policy the records of a generation are about, before any worker decides by it. It
/// lives until events_drain, called when all workers decide by the next, or events_close.
/// - policy, compiled: NULL = none.
void events_policy(struct events *events, uint32_t generation, const struct policy *policy,
                   const struct compiled *compiled);

/// Starts the thread, if anything can be wanted of it.
/// - Returns 0, or -errno with failure filled in.
int events_start(struct events *events, struct failure *failure);

/// Opens the file of --events anew; goes on with the old one if that fails.
void events_rotate(struct events *events);

/// Sends events to a client, which is answered {"ok":true} first.
/// - verdicts: of the packets that it wants events of, as bits 1 << enum verdict.
/// - packets: with the packets' bytes and all that the policy could ask.
/// - Returns 0, with fd owned; -EBUSY if there are EVENTS_TAILS_MAX clients, or -ENOMEM.
int events_tail(struct events *events, int fd, uint32_t verdicts, bool packets);

/// Adds an event of the program's own. facts: NULL = none.
void events_tell(struct events *events, enum events_kind kind, const struct events_facts *facts);

/// Makes lines of all that has been noted; forgets all policies but the one named last.
void events_drain(struct events *events);

/// Makes lines of all that has been noted, writes what can be written within a second, and ends the
/// thread, if there is one. The sink stays open.
void events_stop(struct events *events);

/// Closes and frees what events_open made; NULL too. The thread is stopped, and so are the workers.
void events_close(struct events *events);

#endif
