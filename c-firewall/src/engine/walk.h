// SPDX-License-Identifier: GPL-2.0-or-later
// Evaluation of the rules of a compiled policy for a packet.
#ifndef ENGINE_WALK_H
#define ENGINE_WALK_H

#include <stdint.h>

#include "engine/compiled.h"
#include "engine/flow.h"
#include "engine/types.h"

/// Evaluates base chains in order, until one drops the packet. If it is unknown whether a rule
/// holds, because it reads a field beyond the captured bytes or an unknown name, ways_go_on
/// continues, unless another match of the rule, or the map of names that is its first effect, fails
/// whatever the unknown value is.
/// - bases: indexes into compiled->bases.
/// - nfproto: FIELDS_IPV4 or FIELDS_IPV6.
/// - recorder: NULL = none.
/// - outcome: in/out: filled in; its previous verdict must not be reject.
void walk_policy(const struct decide_settings *settings, const struct compiled *compiled,
                 struct flow *flow, struct flow_counters *counters,
                 const struct decide_input *input, struct compile_bases bases, uint8_t nfproto,
                 const struct decide_recorder *recorder, struct decide_outcome *outcome);

#endif
