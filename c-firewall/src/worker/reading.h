// SPDX-License-Identifier: GPL-2.0-or-later
// Reading of a worker's ledger from its counters and the kernel's figures, while packets may
// arrive.
#ifndef WORKER_READING_H
#define WORKER_READING_H

#include <stdbool.h>

#include "worker/types.h"

/// Fills in the ledger of a worker: of up to STATS_READINGS_MAX readings the one with the fewest
/// unexplained packets. Warns if /proc can't be read.
/// - running: the worker's thread runs, so that a batch may be in flight.
void worker_reading_ledger(const struct worker *worker, bool running, struct ledger *ledger);

#endif
