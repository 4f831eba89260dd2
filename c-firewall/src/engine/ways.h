// SPDX-License-Identifier: GPL-2.0-or-later
// Evaluation of a packet if a policy reads unknown values: a match that reads one may hold or not,
// and both ways are evaluated.
//
// The walk follows one way (path through the rules) after another, and stores only the places to
// return to. Where a rule may lead to a verdict, the walk stores only whether the packet may be
// accepted, and continues as if the rule did not hold; a chain to which the rule may lead is
// evaluated first. Rules have no effects on a way while the packet may be accepted on another way
// past it ("aside"): only what happens however the packet is accepted is counted, limited or
// marked.
#ifndef ENGINE_WAYS_H
#define ENGINE_WAYS_H

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/types.h"

/// Continues from a rule of which it is unknown whether it holds, to the end of the base chains,
/// and fills in walk->outcome.
/// - bases: current base chain and the later ones.
/// - A way ends with drop at a rule that reads unknown values with which the settings let no packet
///   pass. The packet is accepted if each base chain has a way that accepts it; otherwise it has
///   the outcome of the last way.
__attribute__((cold, noinline)) void
ways_go_on(struct walk *walk, const struct decide_settings *settings, struct compile_bases bases);

#endif
