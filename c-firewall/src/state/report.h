// SPDX-License-Identifier: GPL-2.0-or-later
// The start line and the ledger, as text and as JSON. The functions that make a report are pure;
// each returns a string with its line ends that the caller frees, or NULL if there is no memory.
#ifndef STATE_REPORT_H
#define STATE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "options/options.h"
#include "ruleset/tally.h"
#include "state/contract.h"
#include "worker/stats.h"

/// Why a ledger is made.
enum report_reason { REPORT_INTERVAL, REPORT_SIGNAL, REPORT_CONTROL, REPORT_EXIT };

/// The start line, and the failure contract, as options->json says.
/// - requirement: of the policy; NULL without one.
/// - receive_buffer: bytes that the kernel really gives the first queue.
/// - contract: what will happen when something fails; it is printed after the line.
/// - time_ms: UNIX time.
char *report_start(const struct options *options, const struct requirement *requirement,
                   uint32_t receive_buffer, const struct contract *contract, uint64_t time_ms);

/// The ledgers of all queues (count >= 1), and their sum: in text only if there is more than
/// one queue; then what the policy counted, if there is one.
char *report_ledger(const struct options *options, enum report_reason reason, uint64_t time_ms,
                    const struct ledger *ledgers, size_t count, const struct tally *tally);

#endif
