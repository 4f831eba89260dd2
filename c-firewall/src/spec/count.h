// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml: counts of the whole process.
#ifndef SPEC_COUNT_H
#define SPEC_COUNT_H

/// Counters of events in the program.
enum count {
    COUNT_RELOADS,          // reloads of the policy
    COUNT_RELOADS_FAILED,   // reloads that left the old policy running
    COUNT_STALLS,           // times that packets waited longer than the deadline
    COUNT_STALLED_PACKETS,  // packets answered by the guard in all queues
    COUNT_CONTROL_CLIENTS,  // clients of the control socket that were served
    COUNT_CONTROL_REQUESTS, // requests of the control socket that were understood
    COUNT_CONTROL_REFUSED,  // clients and take-overs of the control socket refused by their
                            // credentials
    COUNT_CONTROL_TOO_MANY, // clients of the control socket that found all places taken
    COUNT_CONTROL_BAD,      // requests of the control socket that were not understood
    COUNT_CONTROL_SLOW,     // clients of the control socket closed because they did not read
    COUNT_EVENTS_WRITTEN,   // events that were written
    COUNT_EVENTS_LEFT_OUT,  // events left out because there were too many a second
    COUNT_EVENTS_LOST,      // events lost: a ring was full, or a packet passed more than 8 log
                            // statements
    COUNT_EVENTS_FAILED,    // events that could not be written
    COUNT_TAIL_CLIENTS,     // clients that followed the events
    COUNT_TAIL_LOST,        // events that a following client read too slowly for
    COUNT_UPGRADES,         // handovers of the queues to another process
    COUNT_UPGRADES_FAILED,  // handovers that failed
    COUNT_LEARNED_EVICTED,  // addresses that sets forgot before their time to learn others
    COUNT_COUNT
};

/// Returns the name of a count: that of the enum, as "reloads_failed".
const char *counts_name(enum count count);

#endif
