// SPDX-License-Identifier: GPL-2.0-or-later
// Events as lines of JSON, in the shape of Suricata's EVE: docs/EVENTS.md. All lines end in a line
// end and are to be freed; NULL = no memory.
#ifndef EVENTS_TEXT_H
#define EVENTS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/compile.h"
#include "events/types.h"
#include "policy/policy.h"
#include "worker/event.h"

/// A record, and what its numbers stand for.
struct event_text {
    const struct event *event;
    const struct policy *policy; // of the record's generation; NULL = none, or no longer known
    const struct compiled *compiled;
    const char *iifname; // "" = none
    const char *oifname; // "" = none
};

/// A name that came in a packet: bytes that are no printable ASCII as `?`; to be freed. NULL if it
/// is empty.
char *events_text_shown(const uint8_t *name, size_t length);

/// The line of a packet: accept, drop, reject or anomaly.
/// - packet: with the packet's bytes and all that the policy could ask.
char *events_text_packet(const struct event_text *text, bool packet);

/// The line of a log statement that the packet passed, by its place in outcome.logs; it stands in
/// the policy, which is known.
char *events_text_log(const struct event_text *text, uint32_t log);

/// The line of one of the program's own events. time_ns: UNIX time.
char *events_text_own_line(uint64_t time_ns, enum events_kind kind,
                           const struct events_facts *facts);

#endif
