// SPDX-License-Identifier: GPL-2.0-or-later
// What the start line and the ledger say of a policy.
#ifndef STATE_REPORT_POLICY_H
#define STATE_REPORT_POLICY_H

#include <jansson.h>
#include <stdio.h>

#include "options/options.h"
#include "ruleset/tally.h"
#include "worker/stats.h"

/// Prints the end of the start line: what the policy reads and does.
void report_policy_print_start(FILE *out, const struct options *options,
                               const struct requirement *requirement);

/// Prints what the policy did in all queues, and the rules that count and log.
/// - stats: of all queues together.
void report_policy_print_ledger(FILE *out, const struct options *options, const struct stats *stats,
                                const struct tally *tally);

/// Puts the same into the object of the start.
void report_policy_put_start_object(json_t *object, const struct options *options,
                                    const struct requirement *requirement);

/// Makes the object of what a policy reads.
json_t *report_policy_requirement_object(const struct requirement *requirement);

/// Makes the object of the ledger.
json_t *report_policy_ledger_object(const struct options *options, const struct tally *tally);

#endif
