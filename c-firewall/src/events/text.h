// SPDX-License-Identifier: GPL-2.0-or-later
// Events as lines of JSON, in the format of Suricata's EVE (docs/EVENTS.md). Each line has its line
// end, and the caller frees it; NULL = no memory.
#ifndef EVENTS_TEXT_H
#define EVENTS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/compile.h"
#include "events/types.h"
#include "policy/policy.h"
#include "worker/event.h"

/// Record of an event, with the policy and the interface names to which its numbers refer.
struct event_text {
    const struct event *event;
    // Policy of the record's generation; NULL = there was none, or it has been removed.
    const struct policy *policy;
    const struct compiled *compiled;
    const char *iifname; // name of the interface at which the packet arrived; "" = none
    const char *oifname; // name of the interface by which the packet leaves; "" = none
};

/// Returns a name from a packet, with `?` for bytes that are not printable ASCII; the caller frees
/// it. NULL if it is empty.
char *events_text_shown(const uint8_t *name, size_t length);

/// Returns the line of a packet: accept, drop, reject or anomaly.
/// - packet: true to include the packet's bytes and metadata (the object `input`).
char *events_text_packet(const struct event_text *text, bool packet);

/// Returns the line of a log statement of the policy, which must be known.
/// - log: index in outcome.logs.
char *events_text_log(const struct event_text *text, uint32_t log);

/// Returns the line of an event about the program itself.
/// - time_ns: UNIX time.
char *events_text_own_line(uint64_t time_ns, enum events_kind kind,
                           const struct events_facts *facts);

#endif
