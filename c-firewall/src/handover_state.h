// SPDX-License-Identifier: GPL-2.0-or-later
// What one process tells another in an upgrade, as a line of JSON: the same bytes from both twins.
#ifndef HANDOVER_STATE_H
#define HANDOVER_STATE_H

#include "handover.h"

/// The name of a descriptor's option.
const char *handover_state_fd_name(enum handover_fd fd);

/// Makes room for queues, zeroed. Returns 0 or -ENOMEM.
int handover_state_make_queues(struct handover *state, uint32_t count);

/// The line of state, with its end, to be freed; NULL = no memory. Descriptors and the channel are
/// not looked at.
char *handover_state_print(const struct handover *state);

/// Reads a line of state. What it does not know it leaves out, and counters that it does not find
/// stand at 0: it may come from another version.
/// - state: zeroed; filled in as far as it went, for handover_free.
/// - Returns 0, or -errno with failure filled in: what the other one refuses, or what is no line of
///   state.
int handover_state_parse(const char *line, struct handover *state, struct failure *failure);

#endif
