// SPDX-License-Identifier: GPL-2.0-or-later
// The answers of the control socket: docs/CONTROL.md. Pure; each returns a line with its line end
// that the caller frees, or NULL if there is no memory.
#ifndef CONTROL_ANSWER_H
#define CONTROL_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "control/process.h"
#include "state/reload.h"
#include "state/snapshot.h"
#include "worker/workers.h"

/// A request failed. text: "CAUSE: CURE".
char *control_answer_error(const char *text);

/// Identity of the running firewall.
/// - counts: COUNT_COUNT of them, as counts_get gives them.
char *control_answer_status(const struct control_self *self, const struct snapshot *snapshot,
                            enum log_level level, const uint64_t *counts);

/// The ledger. report: as report_ledger makes it with --json.
char *control_answer_stats(const char *report);

/// The rules. snapshot: with them.
char *control_answer_rules(const struct snapshot *snapshot);

/// A page of connections.
char *control_answer_connections(const struct listing *listing);

char *control_answer_reload(const struct reload_result *result);

char *control_answer_log(enum log_level level, enum log_level was);

/// Address and contents of a proof that a client is to send.
char *control_answer_proof(uint32_t port, uint64_t number);

/// waiting: packets that have no verdict yet.
char *control_answer_drain(uint32_t seconds, uint64_t waiting);

#endif
