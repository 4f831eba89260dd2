// SPDX-License-Identifier: GPL-2.0-or-later
// What the sets of a policy have learnt, for the firewall that takes over.
//
// Form, in little-endian numbers: the form's own (32 bits); of each address the number that its set
// is known by (64), the address (128; one of IPv4 is less than 2^32), and for how many nanoseconds
// more it is known (64), a day at most; how many addresses there are (32). A set is known by what
// it says, as after a reload: what is of another set than those of the new policy is left out.
#ifndef HANDOVER_LEARNED_H
#define HANDOVER_LEARNED_H

#include <stddef.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "handover/memory.h"

// Bytes of all addresses: more than as many as --learned allows.
#define HANDOVER_LEARNED_BYTES_MAX (UINT64_C(64) << 20)

/// How many addresses were handed over.
struct handover_learned_taken {
    uint64_t taken;
    uint64_t left_out; // there was no room for them
    uint64_t other;    // our policy has no such set
};

/// Writes what the sets of a policy have learnt, once the workers have stopped. Returns 0 or
/// -errno.
int handover_learned_write(struct handover_memory *memory, const struct compiled *compiled,
                           uint64_t now_ns);

/// Has the sets of a policy, which have learnt nothing yet, know what was learnt. What does not fit
/// makes room as it would when answers came.
/// - taken: how many were.
/// - Returns NULL, or the name of the part that is not as it should be; then they know nothing.
const char *handover_learned_parse(const uint8_t *bytes, size_t length,
                                   const struct compiled *compiled, uint64_t now_ns,
                                   struct handover_learned_taken *taken);

#endif
