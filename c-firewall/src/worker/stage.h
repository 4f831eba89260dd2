// SPDX-License-Identifier: GPL-2.0-or-later
// Classes for the kernel (--stage, docs/STAGE.md): instead of a verdict, the firewall sets the
// class of a connection's names in bits of the packet's mark, and the kernel's rules decide.
#ifndef WORKER_STAGE_H
#define WORKER_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/types.h"

/// Returns the bit of a class that marks it as final: the highest bit of the mask.
uint32_t stage_settled(uint32_t mask);

/// Returns the class of unreadable names: all bits of the mask except the one for final.
uint32_t stage_unreadable(uint32_t mask);

/// Returns the class of undecided names: all bits of the mask.
uint32_t stage_undecided(uint32_t mask);

/// Returns true if a packet's mark says that the kernel's policy has accepted the packet, and that
/// the firewall only learns from it: in the mask, the highest and the lowest bit alone.
/// - mask: as for stage_tell; 0 = none
bool stage_teaches(uint32_t mask, uint32_t packet_mark);

/// Replaces a policy's outcome by the packet's class. Outcomes that rules did not decide stay:
/// malformed packets, and connections whose client contradicts itself.
/// - mask: adjacent bits of the mark for the class; not 0
/// - is_final: the class can't change with later packets of this end, or of either end
/// - before: mark for the packet's previous query; if the marks differ, the packet has no single
///   class; NULL = this is the first query
void stage_tell(uint32_t mask, const struct decide_input *input, bool is_final,
                const uint32_t *before, struct decide_outcome *outcome);

/// Returns true if the kernel's rules have refused the connection of a packet: the packet is the
/// RST to its sender, and the policy rejects what is marked so.
bool stage_is_refused(uint32_t mask, const struct decide_outcome *outcome);

/// Accepts a packet without the mask's bits of its mark.
void stage_pass(uint32_t mask, const struct decide_input *input, struct decide_outcome *outcome);

/// Clears the mask's bits of the mark that a policy sets, unless the names of the packet's
/// connection are final.
/// - mask: bits of --settled; 0 = none
void stage_withhold(uint32_t mask, bool is_settled, struct decide_outcome *outcome);

#endif
