// SPDX-License-Identifier: GPL-2.0-or-later
// --metrics: an HTTP server for Prometheus, on a thread of its own.
//
// Theory of operation: a connection serves one request and is closed, at the latest after
// METRICS_CONNECTION_MS, so a slow client holds one of METRICS_CONNECTIONS_MAX places for that long
// and the others wait in the kernel's backlog. Each answer is made from a snapshot.
#ifndef METRICS_H
#define METRICS_H

#include "log.h"
#include "options.h"
#include "state.h"

enum {
    METRICS_CONNECTIONS_MAX = 16,      // at a time
    METRICS_CONNECTION_MS = 10 * 1000, // from accept to close
    METRICS_REQUEST_BYTES = 16 * 1024, // of a request's head
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
