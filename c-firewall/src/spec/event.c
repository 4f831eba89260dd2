// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml.
#include "spec/event.h"

#include <stddef.h>

const struct events_names events_names[EVENTS_KIND_COUNT] = {
    [EVENTS_STARTED] = {"started", {NULL}},
    [EVENTS_STOPPED] = {"stopped", {NULL}},
    [EVENTS_RELOAD] = {"reload", {"generation", "rules", "kept", "added", "removed", NULL}},
    [EVENTS_RELOAD_FAILED] = {"reload_failed", {NULL}},
    [EVENTS_STALL] = {"stall", {"queue", "packets", NULL}},
    [EVENTS_OVERLOAD] = {"overload", {"queue", "lost", NULL}},
    [EVENTS_UPGRADE] = {"upgrade", {NULL}},
    [EVENTS_LEFT_OUT] = {"left_out", {"events", NULL}},
    [EVENTS_LOST] = {"lost", {"events", NULL}},
};
