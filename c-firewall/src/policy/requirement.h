// SPDX-License-Identifier: GPL-2.0-or-later
// What a policy can ever read of a packet or do with it, from the chains that a packet can reach.
#ifndef POLICY_REQUIREMENT_H
#define POLICY_REQUIREMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/packet.h"
#include "policy/policy.h"

enum {
    REQUIREMENT_LENGTH_BYTES = 1,        // copied so that the kernel tells a packet's length
    REQUIREMENT_IPV4_BYTES = 20,         // for fields of the IPv4 header
    REQUIREMENT_IPV6_BYTES = 40,         // for fields of the fixed IPv6 header
    REQUIREMENT_IPV4_L4_BYTES = 80,      // for layer 4 behind the longest IPv4 header
    REQUIREMENT_IPV4_OPTION_BYTES = 120, // for options of TCP behind the longest IPv4 header
    // For what stands behind the fixed IPv6 header, and for reject.
    REQUIREMENT_ALL_BYTES = PACKET_COPY_BYTES,
    REQUIREMENT_NAMES_BYTES = 16512, // for what a client shows first: 16 KiB, and headers in front
};

struct requirement {
    uint32_t copy_bytes;  // of a packet, at least; 0 = metadata only
    bool layer4;          // reads behind the network header
    bool uid_gid;         // meta skuid, meta skgid
    bool conntrack_state; // ct state
    bool conntrack_mark;  // ct mark
    bool interface_names; // iifname, oifname
    bool names;           // tls, http, dns
    bool requests;        // http
    bool learns;          // a set that learns addresses
    bool reject;          // answers can be asked for
};

/// Requirements of the base chains that see IPv4 packets, or IPv6 packets.
/// - Returns 0, or -ENOMEM with *requirement untouched.
int requirement_of(const struct policy *policy, bool ipv6, struct requirement *requirement);

/// Whether names are read, be it to decide or to learn. NULL reads none.
bool requirement_reads_names(const struct requirement *requirement);

/// Adds what another one requires.
void requirement_join(struct requirement *requirement, const struct requirement *other);

#endif
