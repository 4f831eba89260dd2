// SPDX-License-Identifier: GPL-2.0-or-later
// Output of events: lines of JSON like Suricata's (docs/EVENTS.md), to the destination of --events
// and to clients that follow (`tail`).
//
// Theory of operation: a thread removes the records from the workers' rings, converts them to
// lines, and writes the lines. Only this thread uses files, and may block on a file. A lock is held
// while records become lines, never while lines are written. Therefore any thread may add a line
// (events_tell), or convert all records to lines (events_drain). Events without room are
// counted, and reported later by a line of their own.
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

/// Creates the workers' rings of event records, and opens the destination of --events, if it is
/// given.
/// - inherited: descriptor of the file from the old firewall, owned by *events from now on; -1 =
///   none.
/// - events: out: rings and destination.
/// - Returns 0, or -errno with failure filled in.
int events_open(struct events **events, const struct options *options, int inherited,
                struct failure *failure);

/// Returns the ring of a worker's event records; the rings of all workers are adjacent.
/// - index: index of the worker.
struct event_ring *events_ring(struct events *events, uint32_t index);

/// Returns a descriptor of the file of --events, for an upgrade, which the caller closes; -1 =
/// none.
int events_fd(struct events *events);

/// Sets the policy to which records of a generation refer. Must be called before any worker decides
/// by this policy. The policy must live until events_drain, which is called when all workers have
/// changed to the next policy, or until events_close.
/// - policy, compiled: NULL = no policy.
void events_policy(struct events *events, uint32_t generation, const struct policy *policy,
                   const struct compiled *compiled);

/// Starts the events thread, if events can ever be requested: by --events, or by clients of a
/// control socket.
/// - Returns 0, or -errno with failure filled in.
int events_start(struct events *events, struct failure *failure);

/// Makes the events thread reopen the file of --events; the thread retains the old file if that
/// fails.
void events_rotate(struct events *events);

/// Starts sending events to a client, after the answer {"ok":true}.
/// - verdicts: verdicts whose events the client requests, as bits 1 << enum verdict.
/// - packets: true if events include the packet's bytes and the policy's input.
/// - Returns 0, with fd owned by *events; -EBUSY if there are already EVENTS_TAILS_MAX clients, or
///   -ENOMEM.
int events_tail(struct events *events, int fd, uint32_t verdicts, bool packets);

/// Adds the line of an event about the program itself to all sinks.
/// - facts: text and numbers of the event; NULL = none.
void events_tell(struct events *events, enum events_kind kind, const struct events_facts *facts);

/// Converts all records to lines, and removes all policies except the latest.
void events_drain(struct events *events);

/// Converts all records to lines, writes as many as possible within a second, and ends the thread,
/// if there is one. The sink stays open.
void events_stop(struct events *events);

/// Closes and frees events that events_open has created; NULL is allowed. The thread and the
/// workers must have ended.
void events_close(struct events *events);

#endif
