// SPDX-License-Identifier: GPL-2.0-or-later
// Line of state: the old process's answer to the request for an upgrade. It is JSON, with the same
// bytes from both twins.
#ifndef HANDOVER_STATE_H
#define HANDOVER_STATE_H

#include <jansson.h>

#include "handover/handover.h"

/// Returns the name of the option that a descriptor belongs to.
const char *handover_state_fd_name(enum handover_fd fd);

/// Allocates the arrays of a state, with `queues` zeroed queues. The indexes of its counts and
/// counters are those of this process.
/// - Returns 0 or -ENOMEM.
int handover_state_make(struct handover *state, uint32_t queues);

/// Returns the state as a line of JSON with its line end, which the caller frees; NULL if there is
/// no memory. The line does not contain the descriptors and the channel.
char *handover_state_print(const struct handover *state);

/// Fills in the failure for an invalid part of the old process's state. Returns -EPROTO.
int handover_state_fail_part(const char *part, struct failure *failure);

/// Parses the old process's line of state. Unknown keys are ignored, because the old process may be
/// of another release.
/// - state: initialised by handover_init; on failure it is partly filled in, for handover_free.
/// - Returns 0, or -errno with failure filled in: the old process's refusal, or the line is no
///   state.
int handover_state_parse(const char *line, struct handover *state, struct failure *failure);

/// Fills in the failure for the old process's refusal, as one line. Returns -EPERM.
int handover_state_fail_refused(const json_t *object, struct failure *failure);

/// Fills in the failure for an answer that does not come from a firewall. Returns -EPROTO.
int handover_state_fail_stranger(struct failure *failure);

#endif
