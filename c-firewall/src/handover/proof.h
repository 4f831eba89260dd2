// SPDX-License-Identifier: GPL-2.0-or-later
// The new firewall's proof that it may take over (control/proof describes what it proves).
#ifndef HANDOVER_PROOF_H
#define HANDOVER_PROOF_H

#include "base/log.h"
#include "handover/channel.h"

/// Proves to the old firewall, at the other end of a channel, that this process may take over.
/// - Returns 0, or -errno with failure filled in: also if the old firewall asks for no proof, or is
///   in another network namespace.
int handover_proof_give(struct handover_channel *channel, struct failure *failure);

#endif
