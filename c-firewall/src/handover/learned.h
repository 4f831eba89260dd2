// SPDX-License-Identifier: GPL-2.0-or-later
// Transfer of the addresses that a policy's sets have learned.
//
// Format, in little-endian numbers: version of the format (32 bits); for each address: the identity
// of its set (64), the address (128; an IPv4 address is less than 2^32), and the remaining lifetime
// in nanoseconds (64), at most a day; the number of addresses (32). The identity of a set comes
// from its text, as in a reload: addresses of sets that the new policy does not have are left out.
#ifndef HANDOVER_LEARNED_H
#define HANDOVER_LEARNED_H

#include <stddef.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "handover/memory.h"

// Maximum size of all transferred addresses, in bytes: more than --learned allows.
#define HANDOVER_LEARNED_BYTES_MAX (UINT64_C(64) << 20)

/// Numbers of learned addresses: transferred, left out, and of sets that the new policy does not
/// have.
struct handover_learned_taken {
    uint64_t taken;
    uint64_t left_out; // addresses that were left out because there was no room
    uint64_t other;    // addresses of sets that the new policy does not have
};

/// Writes the addresses that a policy's sets have learned. Must be called after the workers have
/// stopped.
/// - Returns 0 or -errno.
int handover_learned_write(struct handover_memory *memory, const struct compiled *compiled,
                           uint64_t now_ns);

/// Parses learned addresses into the sets of a policy, which are empty. If there is no room,
/// addresses are evicted as for new DNS answers.
/// - taken: out: numbers of addresses.
/// - Returns NULL, or the name of the invalid part; then the sets are empty.
const char *handover_learned_parse(const uint8_t *bytes, size_t length,
                                   const struct compiled *compiled, uint64_t now_ns,
                                   struct handover_learned_taken *taken);

#endif
