// SPDX-License-Identifier: GPL-2.0-or-later
// Empty names: the value before a parser runs, and the parser's result unless it has read all
// names.
#ifndef NAMES_BLANK_H
#define NAMES_BLANK_H

#include <stdbool.h>

#include "names/types.h"

/// Sets the state and protocol of names, and clears all other fields. Returns the state.
enum names_state names_blank_fill(enum names_state state, enum names_protocol protocol,
                                  struct names *names);

/// Stores a parser's resulting state in names. Unless it is NAMES_KNOWN, clears all fields except
/// state and protocol.
/// - whole: true if no more bytes will be read. Then NAMES_UNDECIDED becomes NAMES_UNREADABLE.
/// - Returns names->state.
enum names_state names_blank_finish(enum names_state state, bool whole, struct names *names);

#endif
