// SPDX-License-Identifier: GPL-2.0-or-later
// What happened beside the way of a packet, or rarely on it, counted for the whole process. Any
// thread may count and read.
#ifndef COUNTS_H
#define COUNTS_H

#include <stdint.h>

enum count {
    COUNT_RELOADS,
    COUNT_RELOADS_FAILED,
    COUNT_STALLS,
    COUNT_STALLED_PACKETS, // answered by the guard
    COUNT_CONTROL_CLIENTS,
    COUNT_CONTROL_REQUESTS,
    COUNT_CONTROL_REFUSED,  // by their credentials
    COUNT_CONTROL_TOO_MANY, // clients at a time
    COUNT_CONTROL_BAD,      // requests that were not understood
    COUNT_CONTROL_SLOW,     // clients closed as they did not read
    COUNT_METRICS_REQUESTS,
    COUNT_METRICS_UNANSWERED, // connections that ended without an answer
    COUNT_METRICS_REFUSED,
    COUNT_EVENTS_WRITTEN,
    COUNT_EVENTS_LEFT_OUT, // by --events-rate
    COUNT_EVENTS_LOST,     // as a worker's ring was full
    COUNT_EVENTS_FAILED,   // could not be written
    COUNT_TAIL_CLIENTS,
    COUNT_TAIL_LOST,
    COUNT_UPGRADES,
    COUNT_UPGRADES_FAILED,
    COUNT_COUNT
};

/// Adds to a count.
void counts_add(enum count count, uint64_t amount);

/// A count so far.
uint64_t counts_get(enum count count);

/// The name of a count: that of the enum, as "reloads_failed".
const char *counts_name(enum count count);

#endif
