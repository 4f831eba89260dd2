// SPDX-License-Identifier: GPL-2.0-or-later
// Classes of names for the kernel's rules (--stage, docs/STAGE.md). Instead of giving a verdict,
// the firewall stores the class of a connection's names in bits of the packet's mark, the mask. The
// kernel's rules decide by these bits.
#ifndef WORKER_STAGE_H
#define WORKER_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/types.h"

/// Returns the bit that marks a class as final: the highest bit of the mask.
uint32_t stage_settled(uint32_t mask);

/// Returns the class of unreadable names: all bits of the mask except the highest bit.
uint32_t stage_unreadable(uint32_t mask);

/// Returns the class of undecided names: all bits of the mask.
uint32_t stage_undecided(uint32_t mask);

/// Returns true if the firewall must only learn addresses from a packet, because the kernel's rules
/// have already accepted it. Of the mask's bits, the packet's mark then has only the highest and
/// the lowest.
/// - mask: as for stage_tell; 0 = no --stage
bool stage_teaches(uint32_t mask, uint32_t packet_mark);

/// Replaces a policy's outcome by accept, with the packet's class in its mark. Drop and reject
/// stay, for example for a client that contradicts itself, unless the outcome is undecided. Accept
/// stays if the packet has known names or no names, and no rule has set the mark.
/// - mask: adjacent bits of the mark for the class; not 0
/// - is_final: true if later packets of this end, or of both ends, can't change the class
/// - before: mark after the packet's previous query or request. If the marks differ, the packet has
///   no single class: it gets the class of unreadable names; NULL = this is the first query or
///   request
void stage_tell(uint32_t mask, const struct decide_input *input, bool is_final,
                const uint32_t *before, struct decide_outcome *outcome);

/// Returns true if a packet is the RST with which the kernel's rules refuse a connection. This RST
/// goes to the sender of the refused packet, and its mark makes the policy reject it.
/// - mask: as for stage_tell; 0 = no --stage: returns false
/// - outcome: the policy's outcome for the packet
bool stage_is_refused(uint32_t mask, const struct decide_outcome *outcome);

/// Sets the outcome to accept, and clears the mask's bits of the packet's mark.
void stage_pass(uint32_t mask, const struct decide_input *input, struct decide_outcome *outcome);

/// Clears the mask's bits in the mark that a policy sets, unless the server has acknowledged the
/// final names of the packet's connection.
/// - mask: bits of --settled; 0 = none
void stage_withhold(uint32_t mask, bool is_settled, struct decide_outcome *outcome);

#endif
