// SPDX-License-Identifier: GPL-2.0-or-later
// What a firewall says of names where the kernel decides (--stage, docs/STAGE.md): a class in the
// bits of a packet's mark.
#ifndef WORKER_STAGE_H
#define WORKER_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/types.h"

/// The bit that says that a connection's class is final.
uint32_t stage_settled(uint32_t mask);

/// Class of unreadable names: all bits but that.
uint32_t stage_unreadable(uint32_t mask);

/// Class of an unsettled connection: all bits.
uint32_t stage_undecided(uint32_t mask);

/// Makes a policy's outcome the class of a packet. What is not decided by rules stays as it is:
/// malformed packets, and connections whose client contradicts itself.
/// - mask: bits in a row; not 0
/// - is_final: later packets of this end, or of both, do not change the connection's class
/// - before: the mark for the packet's query before this one: where they differ, the packet has no
///   one class; NULL = it is the first
void stage_tell(uint32_t mask, const struct decide_input *input, bool is_final,
                const uint32_t *before, struct decide_outcome *outcome);

/// Takes bits out of the mark that a policy sets, unless the names of the packet's connection are
/// final.
/// - mask: of --settled; 0 = none
void stage_withhold(uint32_t mask, bool is_settled, struct decide_outcome *outcome);

#endif
