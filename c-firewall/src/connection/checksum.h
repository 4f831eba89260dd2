// SPDX-License-Identifier: GPL-2.0-or-later
// The checksum of TCP and UDP (RFC 9293, section 3.1; RFC 768; RFC 8200, section 8.1).
#ifndef CONNECTION_CHECKSUM_H
#define CONNECTION_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/packet.h"

/// Whether a packet's checksum is right, as far as it can be told: what was cut, has none, or is
/// too long for one is taken as right.
/// - packet: of TCP or UDP, with its layer 4 header, no fragment.
/// - size: bytes from its layer 4 header on.
bool checksum_is_right(const struct packet *packet, uint32_t size);

#endif
