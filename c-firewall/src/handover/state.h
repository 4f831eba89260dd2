// SPDX-License-Identifier: GPL-2.0-or-later
// What one process tells another first in an upgrade, as a line of JSON: the same bytes from both
// twins.
#ifndef HANDOVER_STATE_H
#define HANDOVER_STATE_H

#include <jansson.h>

#include "handover/handover.h"

/// The name of a descriptor's option.
const char *handover_state_fd_name(enum handover_fd fd);

/// Allocates the state of so many queues, zeroed, with our own names for its numbers.
/// - Returns 0 or -ENOMEM.
int handover_state_make(struct handover *state, uint32_t queues);

/// The line of state, with its end, to be freed; NULL = no memory. Descriptors and the channel are
/// not looked at.
char *handover_state_print(const struct handover *state);

/// Fills in which part of what the old one tells is not as it should be. Returns -EPROTO.
int handover_state_fail_part(const char *part, struct failure *failure);

/// Reads a line of state. What it does not know it leaves out: it may come from another release.
/// - state: as handover_init makes it; filled in as far as it went, for handover_free.
/// - Returns 0, or -errno with failure filled in: what the other one refuses, or what is no line of
///   state.
int handover_state_parse(const char *line, struct handover *state, struct failure *failure);

/// Says why the other one refuses, on one line whatever it says. Returns -EPERM.
int handover_state_fail_refused(const json_t *object, struct failure *failure);

/// Says that no firewall answers. Returns -EPROTO.
int handover_state_fail_stranger(struct failure *failure);

#endif
