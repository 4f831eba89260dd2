// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/metrics.toml.
#include "spec/count.h"

#include <assert.h>

static const struct {
    const char *name, *help;
} counts[] = {
    [COUNT_RELOADS] = {"reloads", "Reloads of the policy"},
    [COUNT_RELOADS_FAILED] = {"reloads_failed", "Reloads that left the old policy running"},
    [COUNT_STALLS] = {"stalls", "Times that packets waited longer than the deadline"},
    [COUNT_STALLED_PACKETS] = {"stalled_packets", "Packets answered by the guard in all queues"},
    [COUNT_CONTROL_CLIENTS] = {"control_clients", "Clients of the control socket that were served"},
    [COUNT_CONTROL_REQUESTS] = {"control_requests",
                                "Requests of the control socket that were understood"},
    [COUNT_CONTROL_REFUSED] = {"control_refused",
                               "Clients of the control socket refused by their credentials"},
    [COUNT_CONTROL_TOO_MANY] = {"control_too_many",
                                "Clients of the control socket that found all places taken"},
    [COUNT_CONTROL_BAD] = {"control_bad",
                           "Requests of the control socket that were not understood"},
    [COUNT_CONTROL_SLOW] = {"control_slow",
                            "Clients of the control socket closed as they did not read"},
    [COUNT_METRICS_REQUESTS] = {"metrics_requests",
                                "Requests for the metrics that were answered with them"},
    [COUNT_METRICS_UNANSWERED] =
        {"metrics_unanswered", "Connections for metrics that ended without an understood request"},
    [COUNT_METRICS_REFUSED] = {"metrics_refused", "Requests for something else than the metrics"},
    [COUNT_EVENTS_WRITTEN] = {"events_written", "Events that were written"},
    [COUNT_EVENTS_LEFT_OUT] = {"events_left_out",
                               "Events left out as there were too many a second"},
    [COUNT_EVENTS_LOST] = {"events_lost", "Events lost as a ring was full"},
    [COUNT_EVENTS_FAILED] = {"events_failed", "Events that could not be written"},
    [COUNT_TAIL_CLIENTS] = {"tail_clients", "Clients that followed the events"},
    [COUNT_TAIL_LOST] = {"tail_lost", "Events that a following client read too slowly for"},
    [COUNT_UPGRADES] = {"upgrades", "Times that queues were handed over to another process"},
    [COUNT_UPGRADES_FAILED] = {"upgrades_failed", "Times that handing over failed"},
    [COUNT_LEARNED_EVICTED] =
        {"learned_evicted", "Addresses that sets which learn forgot before their time, for others"},
};
static_assert(sizeof counts / sizeof *counts == COUNT_COUNT, "all named");

const char *counts_name(enum count count) { return counts[count].name; }

const char *counts_help(enum count count) { return counts[count].help; }
