// SPDX-License-Identifier: GPL-2.0-or-later
// Requirement of a policy: the packet data that it reads and the effects that it has, in all chains
// that a packet can reach.
#ifndef POLICY_REQUIREMENT_H
#define POLICY_REQUIREMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/packet.h"
#include "policy/policy.h"

enum {
    // Number of bytes to copy so that the kernel reports a packet's length.
    REQUIREMENT_LENGTH_BYTES = 1,
    REQUIREMENT_IPV4_BYTES = 20, // number of bytes to copy for fields of the IPv4 header
    REQUIREMENT_IPV6_BYTES = 40, // number of bytes to copy for fields of the fixed IPv6 header
    // Number of bytes to copy for layer 4 after the longest IPv4 header.
    REQUIREMENT_IPV4_L4_BYTES = 80,
    // Number of bytes to copy for TCP options after the longest IPv4 header.
    REQUIREMENT_IPV4_OPTION_BYTES = 120,
    // Number of bytes to copy for headers after the fixed IPv6 header, and for reject.
    REQUIREMENT_ALL_BYTES = PACKET_COPY_BYTES,
    // Number of bytes to copy if the policy reads names or learns addresses: 16 KiB of data, and
    // the headers before them.
    REQUIREMENT_NAMES_BYTES = 16512,
};

struct requirement {
    uint32_t copy_bytes;  // minimum number of bytes of a packet to copy; 0 = metadata only
    bool layer4;          // true if the policy needs data after the network header
    bool uid_gid;         // true if the policy reads meta skuid or meta skgid
    bool conntrack_state; // true if the policy reads ct state
    bool conntrack_mark;  // true if the policy reads ct mark
    bool interface_names; // true if the policy reads iifname or oifname
    bool names;           // true if the policy reads names: fields of tls, http or dns
    bool requests;        // true if the policy reads a field of HTTP requests (host or method)
    bool learns;          // true if the policy uses a set that learns addresses
    bool reject;          // true if the policy rejects packets
};

/// Fills in the requirement of all chains that IPv4 packets, or IPv6 packets, can reach.
/// - Returns 0, or -ENOMEM with *requirement untouched.
int requirement_of(const struct policy *policy, bool ipv6, struct requirement *requirement);

/// Returns true if names are read, for decisions or for learning. NULL reads none.
bool requirement_reads_names(const struct requirement *requirement);

/// Extends a requirement so that it also covers the other requirement.
/// - requirement: in/out: requirement that is extended.
void requirement_join(struct requirement *requirement, const struct requirement *other);

#endif
