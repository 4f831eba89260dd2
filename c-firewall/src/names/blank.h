// SPDX-License-Identifier: GPL-2.0-or-later
// Names without any field: what a parser begins with, and leaves behind unless all is read.
#ifndef NAMES_BLANK_H
#define NAMES_BLANK_H

#include <stdbool.h>

#include "names/types.h"

/// Empties all fields but state and protocol. Returns the state.
enum names_state names_blank_fill(enum names_state state, enum names_protocol protocol,
                                  struct names *names);

/// Ends a parser's work: fields stay only with NAMES_KNOWN.
/// - whole: no more bytes will come, so NAMES_UNDECIDED is NAMES_UNREADABLE.
/// - Returns names->state.
enum names_state names_blank_finish(enum names_state state, bool whole, struct names *names);

#endif
