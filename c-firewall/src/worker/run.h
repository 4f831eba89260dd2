// SPDX-License-Identifier: GPL-2.0-or-later
// What a worker's thread does: receive, parse, decide, send the verdicts, wait. It shares nothing
// but its counters and what it is told. No allocation, lock or print between receiving and the
// verdicts.
#ifndef WORKER_RUN_H
#define WORKER_RUN_H

#include "worker/types.h"

/// Runs the loop until the worker is told to stop, or a call fails; takes the last ledger, and
/// closes the queue unless it is to be kept.
/// - argument: the struct worker.
/// - A loop that ends by an error sends the process SIGTERM. Returns NULL.
void *worker_run(void *argument);

#endif
