// SPDX-License-Identifier: GPL-2.0-or-later
// The way of a packet through the rules of a compiled policy.
#ifndef ENGINE_WALK_H
#define ENGINE_WALK_H

#include <stdint.h>

#include "engine/compiled.h"
#include "engine/flow.h"
#include "engine/types.h"

/// Walks base chains in order, until one drops the packet. Behind a rule that reads a field beyond
/// the captured bytes or a name that is not known, ways goes on. A rule that doesn't match whatever
/// that field is, by what else it tests before it has an effect, is passed over.
/// - bases: into compiled->bases; nfproto: FIELDS_IPV4 or FIELDS_IPV6.
/// - recorder: NULL = none.
/// - Fills in outcome, whose verdict must not be reject before.
void walk_policy(const struct decide_settings *settings, const struct compiled *compiled,
                 struct flow *flow, struct flow_counters *counters,
                 const struct decide_input *input, struct compile_bases bases, uint8_t nfproto,
                 const struct decide_recorder *recorder, struct decide_outcome *outcome);

#endif
