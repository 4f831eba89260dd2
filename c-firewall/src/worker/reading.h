// SPDX-License-Identifier: GPL-2.0-or-later
// The ledger of a worker, read from its counters and the kernel's figures while packets come.
#ifndef WORKER_READING_H
#define WORKER_READING_H

#include <stdbool.h>

#include "worker/types.h"

/// Reads a ledger: of up to STATS_READINGS_MAX readings the one with the least left unexplained.
/// Warns if /proc can't be read.
/// - running: the thread runs, so a batch may be in flight.
void worker_reading_ledger(const struct worker *worker, bool running, struct ledger *ledger);

#endif
