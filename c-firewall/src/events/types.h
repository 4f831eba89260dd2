// SPDX-License-Identifier: GPL-2.0-or-later
// Events about the program itself, and their members.
#ifndef EVENTS_TYPES_H
#define EVENTS_TYPES_H

#include <stdint.h>

#include "spec/event.h"

enum {
    EVENTS_TAILS_MAX = 8, // maximum number of clients that follow events at the same time
};

/// Members of an event about the program itself: its text, if it has one, and its numbers.
struct events_facts {
    const char *text;                     // text of the event; NULL = none
    uint64_t figures[EVENTS_FIGURES_MAX]; // numbers of the event, in the order of spec/event
};

#endif
