// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of the old firewall's policy, in their order. The new firewall pairs them with its own
// rules.
//
// Format, in little-endian numbers: the number of rules (32 bits), then for each rule: the lengths
// of its chain, comment and text (32 bits each; all bits of the comment's length are set if there
// is no comment); its numbers of counters, logs, limits and quotas (8 bits each); the size of each
// of its limits (64 bits, struct flow_limit); the bytes of chain, comment and text.
#ifndef HANDOVER_RULES_H
#define HANDOVER_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "handover/memory.h"
#include "ruleset/load.h"
#include "ruleset/migration.h"

// Maximum size of the serialized rules, in bytes.
#define HANDOVER_RULES_BYTES_MAX (UINT64_C(512) << 20)

/// State of writing the rules. They are written in steps, so that the main thread can do other work
/// in between.
struct handover_rules {
    struct handover_memory memory;
    struct migration_place at;
    uint32_t next_limit;
};

/// Starts writing the rules of a policy; NULL = there is no policy. Returns 0, or -errno with
/// *rules closed.
int handover_rules_begin(struct handover_rules *rules, const struct loaded *loaded);

/// Writes the next rules of the policy that was passed to handover_rules_begin.
/// - Returns 1 if more may be left, 0 if all are written and the memory is sealed, or -errno.
int handover_rules_write(struct handover_rules *rules, const struct loaded *loaded);

/// Parses rules.
/// - Returns 0, or -errno with *side zeroed: -EPROTO unless all bytes are valid.
int handover_rules_parse(const uint8_t *bytes, size_t length, struct migration_side *side);

#endif
