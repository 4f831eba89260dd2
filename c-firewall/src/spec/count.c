// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
#include "spec/count.h"

#include <assert.h>

static const char *const names[] = {
    [COUNT_RELOADS] = "reloads",
    [COUNT_RELOADS_FAILED] = "reloads_failed",
    [COUNT_STALLS] = "stalls",
    [COUNT_STALLED_PACKETS] = "stalled_packets",
    [COUNT_CONTROL_CLIENTS] = "control_clients",
    [COUNT_CONTROL_REQUESTS] = "control_requests",
    [COUNT_CONTROL_REFUSED] = "control_refused",
    [COUNT_CONTROL_TOO_MANY] = "control_too_many",
    [COUNT_CONTROL_BAD] = "control_bad",
    [COUNT_CONTROL_SLOW] = "control_slow",
    [COUNT_EVENTS_WRITTEN] = "events_written",
    [COUNT_EVENTS_LEFT_OUT] = "events_left_out",
    [COUNT_EVENTS_LOST] = "events_lost",
    [COUNT_EVENTS_FAILED] = "events_failed",
    [COUNT_TAIL_CLIENTS] = "tail_clients",
    [COUNT_TAIL_LOST] = "tail_lost",
    [COUNT_UPGRADES] = "upgrades",
    [COUNT_UPGRADES_FAILED] = "upgrades_failed",
    [COUNT_LEARNED_EVICTED] = "learned_evicted",
};
static_assert(sizeof names / sizeof *names == COUNT_COUNT, "all named");

const char *counts_name(enum count count) { return names[count]; }
