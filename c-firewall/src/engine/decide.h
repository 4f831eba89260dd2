// SPDX-License-Identifier: GPL-2.0-or-later
// Decides what happens with a packet. No system call, no allocation; all state is in flow.
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/flow.h"
#include "engine/types.h"

/// The verdict for a packet without a policy: --default for PACKET_OK and PACKET_BEYOND_COPY, the
/// --fail modes (accept if open, drop if closed) for malformed and truncated ones.
/// - truncated: the netlink message did not fit its slot; status is not looked at then.
enum verdict decide(const struct decide_settings *settings, enum packet_status status,
                    bool truncated);

/// Decides a packet.
/// - compiled: NULL = no policy, and decide gives the verdict; flow and counters may be NULL then.
/// - counters: of the calling thread.
/// - Always fills in outcome. The --fail modes decide about truncated packets, malformed ones
///   unless settings->malformed_by_policy and they are of IPv4 or IPv6, and those of which a rule
///   reads what is beyond the captured bytes (outcome->undecidable) or a name that can't be read;
///   --undecided about those of which a rule reads a name that is not known yet
///   (outcome->undecided). Rules before it have had their effects then; and where such a packet may
///   pass, it does so only if the rules may accept it (ways.h).
void decide_packet(const struct decide_settings *settings, const struct compiled *compiled,
                   struct flow *flow, struct flow_counters *counters,
                   const struct decide_input *input, struct decide_outcome *outcome);

/// Does what decide_packet does, and reports every rule on the way. compiled: of a policy that was
/// compiled with settings.linear, else rules that can't match are left out.
void decide_trace(const struct decide_settings *settings, const struct compiled *compiled,
                  struct flow *flow, struct flow_counters *counters,
                  const struct decide_input *input, struct decide_outcome *outcome,
                  const struct decide_recorder *recorder);

#endif
