// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts.h"

#include <assert.h>

static uint64_t counts[COUNT_COUNT];

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
    [COUNT_METRICS_REQUESTS] = "metrics_requests",
    [COUNT_METRICS_UNANSWERED] = "metrics_unanswered",
    [COUNT_METRICS_REFUSED] = "metrics_refused",
    [COUNT_EVENTS_WRITTEN] = "events_written",
    [COUNT_EVENTS_LEFT_OUT] = "events_left_out",
    [COUNT_EVENTS_LOST] = "events_lost",
    [COUNT_EVENTS_FAILED] = "events_failed",
    [COUNT_TAIL_CLIENTS] = "tail_clients",
    [COUNT_TAIL_LOST] = "tail_lost",
    [COUNT_UPGRADES] = "upgrades",
    [COUNT_UPGRADES_FAILED] = "upgrades_failed",
};
static_assert(sizeof names / sizeof *names == COUNT_COUNT, "all named");

void counts_add(enum count count, uint64_t amount) {
    __atomic_add_fetch(&counts[count], amount, __ATOMIC_RELAXED);
}

uint64_t counts_get(enum count count) { return __atomic_load_n(&counts[count], __ATOMIC_RELAXED); }

const char *counts_name(enum count count) { return names[count]; }
