// SPDX-License-Identifier: GPL-2.0-or-later
// The program's own events, and what is told of one.
#ifndef EVENTS_TYPES_H
#define EVENTS_TYPES_H

#include <stdint.h>

#include "spec/event.h"

enum {
    EVENTS_TAILS_MAX = 8, // clients that follow at a time
};

/// Members of an event: its text ("text"), if it has any, and its figures.
struct events_facts {
    const char *text;                     // NULL = none
    uint64_t figures[EVENTS_FIGURES_MAX]; // as many as it has, in the order of spec/event
};

#endif
