// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/blank.h"

enum names_state names_blank_fill(enum names_state state, enum names_protocol protocol,
                                  struct names *names) {
    *names = (struct names){.state = state, .protocol = protocol};
    return state;
}

enum names_state names_blank_finish(enum names_state state, bool whole, struct names *names) {
    names->state = state;
    if (state == NAMES_KNOWN)
        return state;
    if (state == NAMES_UNDECIDED && whole)
        return names_blank_fill(NAMES_UNREADABLE, names->protocol, names);
    return names_blank_fill(state, names->protocol, names);
}
