// SPDX-License-Identifier: GPL-2.0-or-later
// Names without fields: their state before a parser, and after it unless everything was read.
#ifndef NAMES_BLANK_H
#define NAMES_BLANK_H

#include <stdbool.h>

#include "names/types.h"

/// Clears all fields except state and protocol. Returns the state.
enum names_state names_blank_fill(enum names_state state, enum names_protocol protocol,
                                  struct names *names);

/// Sets the final state of a parser, and clears the fields unless it is NAMES_KNOWN.
/// - whole: true if no more bytes will be read: then NAMES_UNDECIDED becomes NAMES_UNREADABLE.
/// - Returns names->state.
enum names_state names_blank_finish(enum names_state state, bool whole, struct names *names);

#endif
