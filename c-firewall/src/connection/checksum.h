// SPDX-License-Identifier: GPL-2.0-or-later
// The checksum of TCP and UDP (RFC 9293, section 3.1; RFC 768; RFC 8200, section 8.1).
#ifndef CONNECTION_CHECKSUM_H
#define CONNECTION_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/packet.h"

/// Returns true if a packet's checksum is correct, or can't be checked: the packet was cut, has no
/// checksum, or is too long for a checksum.
/// - packet: TCP or UDP with its layer 4 header, not a fragment.
/// - size: number of bytes from the layer 4 header on.
bool checksum_is_right(const struct packet *packet, uint32_t size);

/// Computes a packet's checksum. For UDP without a checksum the value is 0. Returns false if the
/// packet was cut, or if its UDP length is invalid.
/// - packet: TCP or UDP with its layer 4 header, not a fragment.
/// - place: out: offset of the checksum from the IP header on.
/// - checksum: out: the correct value.
bool checksum_correct(const struct packet *packet, uint32_t *place, uint16_t *checksum);

#endif
