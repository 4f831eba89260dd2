// SPDX-License-Identifier: GPL-2.0-or-later
// What the old firewall has counted and what its policy has used up, when its workers have stopped.
//
// Form: little-endian numbers of 64 bits, in two memories. The states, which the new one needs
// before its workers start: the counts; of each queue the packets that the guard answered and its
// counters; of each limit how full it is; of each quota the bytes used. The sums, which it adds
// when they run: of each log the packets; of each counter packets and bytes. Counts and counters of
// queues come in the order of their names in the line of state, limits to counters in that of the
// rules.
#ifndef HANDOVER_COUNTED_H
#define HANDOVER_COUNTED_H

#include <stdint.h>

#include "handover/handover.h"
#include "handover/memory.h"
#include "state/state.h"

/// The bytes of the states.
uint64_t handover_counted_states_bytes(const struct handover *of);

/// The bytes of the sums.
uint64_t handover_counted_sums_bytes(const struct handover *of);

/// Writes the states, once the workers have stopped.
/// - now_ns: of the clock that limits go by.
/// - Returns 0 or -errno.
int handover_counted_write_states(struct handover_memory *memory, const struct state *state,
                                  uint64_t now_ns);

/// Writes the sums, once the workers have stopped. Returns 0 or -errno.
int handover_counted_write_sums(struct handover_memory *memory, const struct state *state);

/// Makes room for states in *taken, which knows how many there are. Returns 0 or -ENOMEM.
int handover_counted_make_states(struct handover *taken);

/// Reads states, for which there is room.
/// - bytes: handover_counted_states_bytes of them.
/// - Returns NULL, or the name of the part that is not as it should be.
const char *handover_counted_parse_states(const uint8_t *bytes, struct handover *taken);

/// Reads sums. Any will do.
/// - bytes: handover_counted_sums_bytes of them.
/// - counters, logged: room for as many as the rules have.
void handover_counted_parse_sums(const uint8_t *bytes, const struct handover *taken,
                                 struct flow_counter *counters, uint64_t *logged);

#endif
