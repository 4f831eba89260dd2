// SPDX-License-Identifier: GPL-2.0-or-later
// Counters, limits and quotas of the old firewall, read when its workers have stopped.
//
// Format: little-endian numbers of 64 bits, in two memories. The states, which the new firewall
// needs before its workers start: the counts; for each queue, the packets that the guard answered
// and the queue's counters; for each limit, its fill level; for each quota, the bytes used. The
// sums, which the new firewall adds while its workers run: for each log, its packets; for each
// counter, packets and bytes. Counts and queues' counters come in the order of their names in the
// line of state; limits, quotas, logs and counters in the order of the rules.
#ifndef HANDOVER_COUNTED_H
#define HANDOVER_COUNTED_H

#include <stdint.h>

#include "handover/handover.h"
#include "handover/memory.h"
#include "state/state.h"

/// Returns the size of the old firewall's states in bytes: counts, queues' counters, limits and
/// quotas.
uint64_t handover_counted_states_bytes(const struct handover *of);

/// Returns the size of the old firewall's sums in bytes: totals of the log and counter statements.
uint64_t handover_counted_sums_bytes(const struct handover *of);

/// Writes the states: counts, queues' counters, limits and quotas. Must be called after the workers
/// have stopped.
/// - now_ns: time by the clock of the limits.
/// - Returns 0 or -errno.
int handover_counted_write_states(struct handover_memory *memory, const struct state *state,
                                  uint64_t now_ns);

/// Writes the sums: totals of the log and counter statements. Must be called after the workers have
/// stopped.
/// - Returns 0 or -errno.
int handover_counted_write_sums(struct handover_memory *memory, const struct state *state);

/// Allocates the arrays for the states of limits and quotas in *taken: an element for each limit
/// and each quota of the old policy. Returns 0 or -ENOMEM.
int handover_counted_make_states(struct handover *taken);

/// Parses the states (counts, queues' counters, limits and quotas) into *taken.
/// handover_counted_make_states must have been called.
/// - bytes: the states; their length is handover_counted_states_bytes.
/// - Returns NULL, or the name of the invalid part.
const char *handover_counted_parse_states(const uint8_t *bytes, struct handover *taken);

/// Parses the sums: values of the counter statements, and packets of the log statements. Every
/// value is valid.
/// - bytes: the sums; their length is handover_counted_sums_bytes.
/// - counters, logged: out: arrays with an element for each counter statement and each log
///   statement of the old policy.
void handover_counted_parse_sums(const uint8_t *bytes, const struct handover *taken,
                                 struct flow_counter *counters, uint64_t *logged);

#endif
