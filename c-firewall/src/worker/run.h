// SPDX-License-Identifier: GPL-2.0-or-later
// Loop of a worker's thread: receive, parse, decide, send the verdicts, wait. The thread shares its
// counters, requests and events, and the state of policies, with other threads. Between receiving
// packets and sending their verdicts it does not allocate or print, and locks only the table of
// learned addresses.
#ifndef WORKER_RUN_H
#define WORKER_RUN_H

#include "worker/types.h"

/// Runs the loop until the worker is stopped or a system call fails. Then reads the last ledger,
/// and closes the queue unless keep_open is set. After an error sends SIGTERM to the process.
/// - argument: pointer to the struct worker.
/// - Returns NULL.
void *worker_run(void *argument);

#endif
