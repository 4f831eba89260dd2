// SPDX-License-Identifier: GPL-2.0-or-later
// Reading of a worker's ledger from the worker's counters and the kernel's figures, while packets
// may arrive.
#ifndef WORKER_READING_H
#define WORKER_READING_H

#include <stdbool.h>

#include "worker/types.h"

/// Fills in the ledger of a worker from the reading with the fewest unexplained packets, of up to
/// STATS_READINGS_MAX readings. Warns if no reading of /proc succeeds.
/// - running: true if the worker's thread runs: a batch may be in flight.
void worker_reading_ledger(const struct worker *worker, bool running, struct ledger *ledger);

#endif
