// SPDX-License-Identifier: GPL-2.0-or-later
// Empty names: the value before a parser runs, and its result unless the parser has read
// everything.
#ifndef NAMES_BLANK_H
#define NAMES_BLANK_H

#include <stdbool.h>

#include "names/types.h"

/// Sets state and protocol, and clears all other fields. Returns the state.
enum names_state names_blank_fill(enum names_state state, enum names_protocol protocol,
                                  struct names *names);

/// Stores a parser's resulting state. Unless it is NAMES_KNOWN, clears all fields except state and
/// protocol.
/// - whole: true if no more bytes will be read. Then NAMES_UNDECIDED becomes NAMES_UNREADABLE.
/// - Returns names->state.
enum names_state names_blank_finish(enum names_state state, bool whole, struct names *names);

#endif
