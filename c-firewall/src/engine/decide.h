// SPDX-License-Identifier: GPL-2.0-or-later
// Decision about a packet. It allocates nothing, and makes no system call, except that a search in
// learned may wait for a lock. Its state is in flow.
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compiled.h"
#include "engine/flow.h"
#include "engine/types.h"

/// Returns the verdict for a packet without a policy: --default for PACKET_OK and
/// PACKET_BEYOND_COPY; for malformed and truncated packets the --fail modes (accept if open, drop
/// if closed).
/// - truncated: true if the netlink message did not fit its slot of the receive buffer; status is
///   ignored then.
enum verdict decide(const struct decide_settings *settings, enum packet_status status,
                    bool truncated);

/// Decides a packet.
/// - compiled: NULL = no policy: the verdict is that of decide, and flow and counters may be NULL.
/// - counters: counters of the calling thread.
/// - outcome: out: always filled in. The --fail modes decide truncated packets; malformed packets,
///   unless settings->malformed_by_policy is set and they are IPv4 or IPv6; and packets of which a
///   rule reads bytes that were not captured (outcome->undecidable) or an unreadable name.
///   --undecided decides packets of which a rule reads a name that is not known yet
///   (outcome->undecided). If a rule reads uncaptured bytes, or an unreadable or unknown name,
///   earlier rules have already had their effects, and an option that accepts lets the packet pass
///   only if the rules may accept it (ways.h). Packets of a refused connection (input->refused) are
///   dropped, unless --fail decides them as truncated or malformed.
void decide_packet(const struct decide_settings *settings, const struct compiled *compiled,
                   struct flow *flow, struct flow_counters *counters,
                   const struct decide_input *input, struct decide_outcome *outcome);

/// Decides like decide_packet, and reports every rule that is evaluated.
/// - compiled: compiled with settings.linear; otherwise rules that can't match are not reported.
void decide_trace(const struct decide_settings *settings, const struct compiled *compiled,
                  struct flow *flow, struct flow_counters *counters,
                  const struct decide_input *input, struct decide_outcome *outcome,
                  const struct decide_recorder *recorder);

#endif
