// SPDX-License-Identifier: GPL-2.0-or-later
// What a compiled policy makes of the names that clients show, so that sets, maps and rules find
// them as they find other numbers.
#ifndef ENGINE_HOSTNAMES_H
#define ENGINE_HOSTNAMES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/lookup.h"
#include "names/types.h"
#include "policy/hostname.h"
#include "policy/policy.h"

/// The names of a policy as the engine has them.
struct host_numbers {
    struct hostnames *hostnames; // NULL = none
    uint32_t protocol_count;
    policy_value *protocols; // of ALPN, as POLICY_ALPN; the n-th has bit n
};

/// Stores the names of a policy, which are shared.
void hostnames_make(struct host_numbers *numbers, struct hostnames *hostnames);
void hostnames_free(struct host_numbers *numbers);

/// The numbers of a name of the policy, and of all that lies in it.
struct policy_range hostnames_interval(const struct host_numbers *numbers, uint32_t id);

/// The number of a client's name, as forest_find.
uint32_t hostnames_find(const struct host_numbers *numbers, const uint8_t *name, size_t length);

/// Adds the bit of a protocol of ALPN, which is added if it is new, to a mask. Returns 0, -ENOSPC
/// if there is no more room, or -ENOMEM.
int hostnames_add_protocol(struct host_numbers *numbers, policy_value protocol, uint32_t *mask);

/// Numbers of a client's names in a compiled policy (compiled.hosts): decide_input's
/// host_number and alpn_bits, which stay the same as long as names and policy do.
void hostnames_resolve(const struct host_numbers *numbers, const struct names *names,
                       uint32_t *host_number, uint32_t *alpn_bits);

/// Parts intervals that lie in one another: of each number the innermost that has it is left. Those
/// of one value that touch become one.
/// - ranges: to be freed; others take their place.
/// - Returns 0, or -ENOMEM with all as it was.
int hostnames_part(struct lookup_range **ranges, uint32_t *count);

#endif
