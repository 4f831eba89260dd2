// SPDX-License-Identifier: GPL-2.0-or-later
// --metrics: an HTTP server for Prometheus, on a thread of its own.
//
// Theory of operation: a connection serves one request and is closed, at the latest after
// METRICS_CONNECTION_MS, so a slow client holds one of METRICS_CONNECTIONS_MAX places for that long
// and the others wait in the kernel's backlog.
//
// An answer is a rendering of a snapshot, and clients share it: for METRICS_SHARE times as long as
// it took to make, so that making takes a tenth of a processor at most, however many clients ask
// and counters there are. There are two renderings at most, the newest and one that slow clients
// still read; as long as both are being read, the newest is given. So memory has a bound whatever
// clients do, and no answer is older than METRICS_CONNECTION_MS.
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "base/log.h"
#include "options/options.h"
#include "state/state.h"

enum {
    METRICS_CONNECTIONS_MAX = 16,      // at a time
    METRICS_CONNECTION_MS = 10 * 1000, // the time from accept to close
    METRICS_REQUEST_BYTES = 16 * 1024, // of a request's head
    METRICS_SHARE = 9,
};

struct metrics;

/// Opens the socket at options->metrics (not NULL). To be called while the program still has the
/// rights that this needs.
/// - listener: -1, or the listening socket of options->metrics taken from another process; belongs
/// to
///   the metrics from now on, also when this fails.
/// - Returns 0, or -errno with failure filled in.
int metrics_open(struct metrics **opened, const struct options *options, int listener,
                 struct failure *failure);

/// Starts the thread, which reads the state.
/// - Returns 0, or -errno with failure filled in.
int metrics_start(struct metrics *metrics, struct state *state, struct failure *failure);

/// The listening socket, to be handed over.
int metrics_listener(const struct metrics *metrics);

/// Ends the thread, if it was started, and closes all. NULL can be given as well.
void metrics_stop(struct metrics *metrics);

#endif
