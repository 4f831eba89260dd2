// SPDX-License-Identifier: GPL-2.0-or-later
// The way of a packet through the rules of a compiled policy.
#ifndef ENGINE_WALK_H
#define ENGINE_WALK_H

#include <stdint.h>

#include "engine/compiled.h"
#include "engine/flow.h"
#include "engine/types.h"

/// Walks base chains in order, until one drops the packet, or a rule reads a field that is beyond
/// the captured bytes. A rule that does not match whatever that field is, because of what else it
/// tests before its first effect, is passed over.
/// - bases: into compiled->bases; nfproto: FIELDS_IPV4 or FIELDS_IPV6.
/// - recorder: NULL = none.
/// - Fills in outcome's verdict (which must not be reject before), by, rule, chain, mark, mark_set
///   and reject; sets undecidable, and then no verdict.
void walk_policy(const struct compiled *compiled, struct flow *flow, struct flow_counters *counters,
                 const struct decide_input *input, struct compile_bases bases, uint8_t nfproto,
                 const struct decide_recorder *recorder, struct decide_outcome *outcome);

#endif
