// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers for the names that clients show, so that sets, maps and rules find them like other
// numbers.
#ifndef ENGINE_HOSTNAMES_H
#define ENGINE_HOSTNAMES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/lookup.h"
#include "names/types.h"
#include "policy/hostname.h"
#include "policy/policy.h"

/// Host names and ALPN protocols of a compiled policy.
struct host_numbers {
    struct hostnames *hostnames; // host names; NULL = none
    uint32_t protocol_count;
    policy_value *protocols; // ALPN protocols as POLICY_ALPN; the n-th has bit n
};

/// Creates the numbers of a policy's names. The names are shared with the policy.
void hostnames_make(struct host_numbers *numbers, struct hostnames *hostnames);
void hostnames_free(struct host_numbers *numbers);

/// Returns the range of numbers that consists of the number of a policy's name and the numbers of
/// all names below it.
/// - id: index of the name in the policy's table of names (hostname.h).
struct policy_range hostnames_interval(const struct host_numbers *numbers, uint32_t id);

/// Returns the number of a host name that a client has sent, or else the number of the nearest
/// wildcard above it; 0 if the policy has neither (forest_find).
uint32_t hostnames_find(const struct host_numbers *numbers, const uint8_t *name, size_t length);

/// Adds the bit of an ALPN protocol to a mask, and adds the protocol if it is new. Returns 0,
/// -ENOSPC if the policy has 32 other protocols, or -ENOMEM.
/// - mask: in/out: bits of protocols.
int hostnames_add_protocol(struct host_numbers *numbers, policy_value protocol, uint32_t *mask);

/// Finds the numbers of a client's names in a compiled policy (compiled.hosts): host_number and
/// alpn_bits of decide_input. Both are 0 unless the names are known. They change only if the names
/// or the policy change.
/// - host_number, alpn_bits: out: always set.
void hostnames_resolve(const struct host_numbers *numbers, const struct names *names,
                       uint32_t *host_number, uint32_t *alpn_bits);

/// Splits nested intervals into disjoint intervals. Each number keeps the value of the innermost
/// interval that contains it. Adjacent intervals of one value are joined.
/// - ranges: in: the intervals, which are freed; out: new intervals, which the caller frees.
/// - count: in/out: the number of intervals.
/// - Returns 0, or -ENOMEM with ranges and count unchanged.
int hostnames_part(struct lookup_range **ranges, uint32_t *count);

#endif
