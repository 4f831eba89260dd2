// SPDX-License-Identifier: GPL-2.0-or-later
// Reports: the start line and the ledger, as text and as JSON. The functions that create a report
// have no side effects; each returns a string with its line ends that the caller frees, or NULL if
// there is no memory.
#ifndef STATE_REPORT_H
#define STATE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "options/options.h"
#include "ruleset/tally.h"
#include "state/contract.h"
#include "worker/stats.h"

/// Reason for which a ledger is reported.
enum report_reason { REPORT_INTERVAL, REPORT_SIGNAL, REPORT_CONTROL, REPORT_EXIT };

/// Creates the start line and the failure contract: as JSON if options->json is true, otherwise as
/// text.
/// - requirement: requirement of the policy; NULL without a policy.
/// - receive_buffer: size that the kernel has given the first queue's buffer, in bytes.
/// - contract: as text printed after the line; as JSON a member of the line.
/// - time_ms: UNIX time.
char *report_start(const struct options *options, const struct requirement *requirement,
                   uint32_t receive_buffer, const struct contract *contract, uint64_t time_ms);

/// Creates the report of all queues' ledgers (at least one), their sum (in text only for several
/// queues), and the policy's counters, if there is a policy.
char *report_ledger(const struct options *options, enum report_reason reason, uint64_t time_ms,
                    const struct ledger *ledgers, size_t count, const struct tally *tally);

#endif
