// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml: the program's own events.
#ifndef SPEC_EVENT_H
#define SPEC_EVENT_H

enum { EVENTS_FIGURES_MAX = 5 }; // of one of them

/// The program's own events.
enum events_kind {
    EVENTS_STARTED, // packets are decided
    EVENTS_STOPPED, // the firewall was told to end
    EVENTS_RELOAD,  // the policy was read anew: its number, its rules, and how many of them are as
                    // before, new, or gone
    EVENTS_RELOAD_FAILED, // the old policy stays: `text` says why
    EVENTS_STALL,         // the guard answered packets of a queue: how many at first
    EVENTS_OVERLOAD, // the kernel dropped packets of a queue: how many since it was looked last
    EVENTS_UPGRADE,  // in place of `started`, by a firewall that took over
    EVENTS_LEFT_OUT, // by the rate: how many events
    EVENTS_LOST,     // how many events, and for want of room where (`text`): `ring`, `sink`, `tail`
    EVENTS_KIND_COUNT
};

/// What an event is called in a line, and its figures.
struct events_names {
    const char *name;
    const char *figures[EVENTS_FIGURES_MAX + 1]; // ends with NULL
};

/// By enum events_kind.
extern const struct events_names events_names[EVENTS_KIND_COUNT];

#endif
