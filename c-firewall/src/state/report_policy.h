// SPDX-License-Identifier: GPL-2.0-or-later
// The policy's part of the start line and of the ledger.
#ifndef STATE_REPORT_POLICY_H
#define STATE_REPORT_POLICY_H

#include <jansson.h>
#include <stdio.h>

#include "options/options.h"
#include "ruleset/tally.h"
#include "worker/stats.h"

/// Prints the end of the start line: --malformed, the policy's file, the packet data that the
/// policy needs, and whether it rejects.
void report_policy_print_start(FILE *out, const struct options *options,
                               const struct requirement *requirement);

/// Prints the policy's counters of all queues, and the rules with counter and log statements.
/// - stats: sum of all queues.
void report_policy_print_ledger(FILE *out, const struct options *options, const struct stats *stats,
                                const struct tally *tally);

/// Adds the policy to the start line's JSON object.
void report_policy_put_start_object(json_t *object, const struct options *options,
                                    const struct requirement *requirement);

/// Creates the JSON object of a policy's requirement.
json_t *report_policy_requirement_object(const struct requirement *requirement);

/// Creates the policy's part of the ledger's JSON.
json_t *report_policy_ledger_object(const struct options *options, const struct tally *tally);

#endif
