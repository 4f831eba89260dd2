// SPDX-License-Identifier: GPL-2.0-or-later
// Answers of the control socket (docs/CONTROL.md), each a line of JSON with its line end. The
// functions have no side effects. Each returns the line, which the caller frees, or NULL if there
// is no memory.
#ifndef CONTROL_ANSWER_H
#define CONTROL_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "control/process.h"
#include "state/reload.h"
#include "state/snapshot.h"
#include "worker/workers.h"

/// Returns the answer to a failed request, or to a client that is not served.
/// - text: "CAUSE: CURE".
char *control_answer_error(const char *text);

/// Returns the answer to `status`: the running program, its policy, queues and counts.
/// - counts: COUNT_COUNT results of counts_get, in the order of enum count.
char *control_answer_status(const struct control_self *self, const struct snapshot *snapshot,
                            enum log_level level, const uint64_t *counts);

/// Returns the answer to `stats`.
/// - report: ledger that report_ledger makes with --json.
char *control_answer_stats(const char *report);

/// Returns the answer to `rules`.
/// - snapshot: must include the rules.
char *control_answer_rules(const struct snapshot *snapshot);

/// Returns the answer to `connections`: one page of the listing.
char *control_answer_connections(const struct listing *listing);

char *control_answer_reload(const struct reload_result *result);

char *control_answer_log(enum log_level level, enum log_level was);

/// Returns the answer to `proof`: the netlink port to which the client sends its proof, and the
/// number to send.
char *control_answer_proof(uint32_t port, uint64_t number);

/// Returns the answer to `drain`.
/// - waiting: number of packets without a verdict, in the queues whose counters are known.
char *control_answer_drain(uint32_t seconds, uint64_t waiting);

#endif
