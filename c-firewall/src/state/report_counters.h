// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of a ledger, as text and as JSON, by the table of spec/counters.toml.
#ifndef STATE_REPORT_COUNTERS_H
#define STATE_REPORT_COUNTERS_H

#include <jansson.h>
#include <stdio.h>

#include "spec/counter.h"

/// Prints the counters that one line of the ledger's text lists, e.g. "gaps 0, overruns 0".
/// - text: the line: that of a queue, or of the policy.
void report_counters_print(FILE *out, const struct stats *stats, enum counter_text text);

/// Prints the counts of malformed packets by reason, without zeros. Unreadable netlink messages are
/// the last reason.
void report_counters_print_malformed(FILE *out, const struct stats *stats);

/// Adds the counters that the ledger shows, each under its key in the table of counters.
void report_counters_put(json_t *object, const struct stats *stats);

#endif
