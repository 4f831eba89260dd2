// SPDX-License-Identifier: GPL-2.0-or-later
// What events say of a packet's headers, in the shape of Suricata's EVE: docs/EVENTS.md.
#ifndef EVENTS_HEADERS_H
#define EVENTS_HEADERS_H

#include <stdint.h>

#include "packet/packet.h"
#include "spec/event.h"

/// Flow identifier: the same in both directions. 51 bits, as Suricata's.
/// - Returns 0 if the packet's addresses are not known.
uint64_t events_headers_flow_id(const struct packet *packet);

/// Fills in the addresses and what follows from them; nothing if they are not known.
void events_headers_put_tuple(struct event_line *line, const struct packet *packet);

/// Fills in the length and the headers, as Suricata's drop records have them.
void events_headers_put_layers(struct event_headers *headers, const struct packet *packet);

#endif
