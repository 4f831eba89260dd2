// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of the old firewall's policy as the new one is to know them again, in their order.
//
// Form, in little-endian numbers: the number of rules (32 bits), then of each rule: the lengths of
// its chain, comment and text (32 bits each; all bits of the comment's set = none); how many
// counters, logs, limits and quotas it has (8 bits each); of each of its limits the size (64 bits,
// struct flow_limit); the bytes of chain, comment and text.
#ifndef HANDOVER_RULES_H
#define HANDOVER_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "handover/memory.h"
#include "ruleset/load.h"
#include "ruleset/migration.h"

#define HANDOVER_RULES_BYTES_MAX (UINT64_C(512) << 20) // of all that is told of rules

/// Rules that are being written, a part at a time, since the writer has other work.
struct handover_rules {
    struct handover_memory memory;
    struct migration_place at;
    uint32_t next_limit;
};

/// Begins to write the rules of a policy, if there is one. Returns 0, or -errno with it closed.
int handover_rules_begin(struct handover_rules *rules, const struct loaded *loaded);

/// Writes some more of them, of the same policy.
/// - Returns 1 if there are more, 0 if there are not, and the memory is sealed, or -errno.
int handover_rules_write(struct handover_rules *rules, const struct loaded *loaded);

/// Reads rules.
/// - Returns 0, or -errno with *side zeroed: -EPROTO if they are not as they should be, to the last
///   byte.
int handover_rules_parse(const uint8_t *bytes, size_t length, struct migration_side *side);

#endif
