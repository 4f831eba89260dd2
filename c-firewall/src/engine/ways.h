// SPDX-License-Identifier: GPL-2.0-or-later
// The ways of a packet of which a policy reads what is not known: a match that reads it may hold or
// not, and both are walked.
//
// The walk takes one way after the other, without keeping more than the jumps to return from. Where
// a rule may lead to a verdict, that verdict is noted and the walk goes on as if the rule did not
// hold; a chain that it may lead to is walked first. A way of which another one is noted to pass by
// ("aside") has no effects: what is counted, limited and marked is what happens however the packet
// is accepted.
#ifndef ENGINE_WAYS_H
#define ENGINE_WAYS_H

#include "engine/compiled.h"
#include "engine/frame.h"
#include "engine/types.h"

/// Goes on from a rule of which a walk could not tell whether it holds, to the end of the base
/// chains: fills in walk->outcome.
/// - bases: the base chain at hand, and those behind it.
/// - A way is dropped at a rule that reads what the settings do not let pass. The packet is
/// accepted
///   if a way through each base chain is; else dropped by what the last way ended with.
__attribute__((cold, noinline)) void
ways_go_on(struct walk *walk, const struct decide_settings *settings, struct compile_bases bases);

#endif
