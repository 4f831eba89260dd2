// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of packet_parse. Input: the number of bytes to cut off (2 bytes, little-endian), the
// number of bytes that were not captured in units of 4 bytes (2 bytes, little-endian), then the
// packet.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packet/packet.h"

enum { PREFIX_BYTES = 4 };

static void must(int condition) {
    if (!condition)
        abort();
}

/// Parses a copy of the data in a block of exactly the captured size, and checks the conditions
/// that hold for every parsed packet.
static enum packet_status parse(const uint8_t *data, uint32_t captured, uint32_t original) {
    uint8_t *bytes = malloc(captured ? captured : 1);
    struct packet packet;
    enum packet_status status;

    memcpy(bytes, data, captured);
    status = packet_parse(bytes, captured, original, &packet);
    must(status < PACKET_STATUS_COUNT);
    must(packet.original >= packet.captured);
    must(packet.end <= packet.original);
    must(packet.l4_offset <= packet.end);
    must(!packet.later_fragment || (packet.fragment && packet.l4_offset == 0));
    must(!packet.has_ports || packet.l4_offset + 4 <= packet.end);
    must(!packet.has_tcp_flags || packet.l4_offset + 20 <= packet.end);
    must(!packet.has_icmp || packet.l4_offset + 2 <= packet.end);
    must(!(packet.has_ports && packet.has_icmp));
    free(bytes);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t cut, captured, original;
    enum packet_status whole, part;

    if (size < PREFIX_BYTES)
        return 0;
    captured = (uint32_t)size - PREFIX_BYTES;
    original = captured + (data[2] | (uint32_t)data[3] << 8) * 4;
    cut = (data[0] | (uint32_t)data[1] << 8) % (captured + 1);

    whole = parse(data + PREFIX_BYTES, captured, original);
    part = parse(data + PREFIX_BYTES, captured - cut, original);
    // With fewer captured bytes, the status stays the same or becomes PACKET_BEYOND_COPY.
    must(part == whole || part == PACKET_BEYOND_COPY);
    return 0;
}
