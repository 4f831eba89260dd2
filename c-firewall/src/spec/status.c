// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/statuses.toml.
#include "spec/status.h"

#include <assert.h>

static const char *const names[] = {
    [PACKET_OK] = "ok",
    [PACKET_BEYOND_COPY] = "beyond-copy",
    [PACKET_EMPTY] = "empty",
    [PACKET_VERSION] = "version",
    [PACKET_IPV4_SHORT] = "ipv4-short",
    [PACKET_IPV4_HEADER_LENGTH] = "ipv4-header-length",
    [PACKET_IPV4_TOTAL_LENGTH] = "ipv4-total-length",
    [PACKET_IPV4_FRAGMENT_OVERFLOW] = "ipv4-fragment-overflow",
    [PACKET_IPV6_SHORT] = "ipv6-short",
    [PACKET_IPV6_PAYLOAD_LENGTH] = "ipv6-payload-length",
    [PACKET_IPV6_EXTENSION_SHORT] = "ipv6-extension-short",
    [PACKET_IPV6_EXTENSION_LIMIT] = "ipv6-extension-limit",
    [PACKET_IPV6_FRAGMENT_OVERFLOW] = "ipv6-fragment-overflow",
    [PACKET_TCP_SHORT] = "tcp-short",
    [PACKET_TCP_DATA_OFFSET] = "tcp-data-offset",
    [PACKET_UDP_SHORT] = "udp-short",
    [PACKET_UDP_LENGTH] = "udp-length",
    [PACKET_ICMP_SHORT] = "icmp-short",
    [PACKET_ICMPV6_SHORT] = "icmpv6-short",
};
static_assert(sizeof names / sizeof *names == PACKET_STATUS_COUNT, "every status has a name");

bool packet_is_malformed(enum packet_status status) { return status >= PACKET_EMPTY; }

const char *packet_status_name(enum packet_status status) { return names[status]; }
