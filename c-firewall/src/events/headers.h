// SPDX-License-Identifier: GPL-2.0-or-later
// Headers of a packet in an event, in the format of Suricata's EVE (docs/EVENTS.md).
#ifndef EVENTS_HEADERS_H
#define EVENTS_HEADERS_H

#include <stdint.h>

#include "packet/packet.h"
#include "spec/event.h"

/// Returns the flow ID: a number of 51 bits, as in Suricata, that is the same for both directions
/// of a connection.
/// - Returns 0 if the packet's addresses are unknown.
uint64_t events_headers_flow_id(const struct packet *packet);

/// Adds a packet's addresses, ports, protocol, and ICMP type and code to an event's line, if the
/// addresses are known.
void events_headers_fill_tuple(struct event_line *line, const struct packet *packet);

/// Adds the packet's length and the fields of its headers, as in Suricata's drop records.
void events_headers_fill_layers(struct event_headers *headers, const struct packet *packet);

#endif
