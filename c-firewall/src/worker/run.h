// SPDX-License-Identifier: GPL-2.0-or-later
// Loop of a worker's thread: receive, parse, decide, send the verdicts, wait. The thread shares
// only its counters and the requests of other threads with them. It neither allocates, locks nor
// prints between receiving packets and sending their verdicts.
#ifndef WORKER_RUN_H
#define WORKER_RUN_H

#include "worker/types.h"

/// Runs the loop until the worker is stopped or a call fails, reads the last ledger, and closes the
/// queue unless keep_open is set.
/// - argument: pointer to the struct worker.
/// - After an error it sends SIGTERM to the process. Returns NULL.
void *worker_run(void *argument);

#endif
