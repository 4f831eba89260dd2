// SPDX-License-Identifier: GPL-2.0-or-later
// The program's own events, and what is told of one.
#ifndef EVENTS_TYPES_H
#define EVENTS_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum {
    EVENTS_TAILS_MAX = 8,   // clients that follow at a time
    EVENTS_FIGURES_MAX = 6, // of the program's own events
};

/// The program's own events.
enum events_kind {
    EVENTS_STARTED,
    EVENTS_STOPPED,
    EVENTS_RELOAD,
    EVENTS_RELOAD_FAILED,
    EVENTS_STALL,
    EVENTS_OVERLOAD,
    EVENTS_UPGRADE,
    EVENTS_LEFT_OUT, // by --events-rate
    EVENTS_LOST,     // for want of room
    EVENTS_KIND_COUNT
};

/// What is told of one: its text ("text"), if it has any, and figures by their names.
struct events_facts {
    const char *text; // NULL = none
    size_t count;
    struct {
        const char *name;
        uint64_t value;
    } figures[EVENTS_FIGURES_MAX];
};

#endif
