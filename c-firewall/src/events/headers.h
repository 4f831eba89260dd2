// SPDX-License-Identifier: GPL-2.0-or-later
// Headers of a packet in an event, in the format of Suricata's EVE (docs/EVENTS.md).
#ifndef EVENTS_HEADERS_H
#define EVENTS_HEADERS_H

#include <stdint.h>

#include "packet/packet.h"
#include "spec/event.h"

/// Returns the flow ID: the same in both directions, with 51 bits like Suricata's.
/// - Returns 0 if the packet's addresses are unknown.
uint64_t events_headers_flow_id(const struct packet *packet);

/// Adds addresses, ports, protocol and flow ID, if the addresses are known.
void events_headers_put_tuple(struct event_line *line, const struct packet *packet);

/// Adds length and headers, as in Suricata's drop records.
void events_headers_put_layers(struct event_headers *headers, const struct packet *packet);

#endif
