// SPDX-License-Identifier: GPL-2.0-or-later
// Output of `explain --json`. It is written without a library, because keys have a fixed order and
// times a fixed number of decimals.
#ifndef EXPLAIN_JSON_H
#define EXPLAIN_JSON_H

#include <stdio.h>

#include "explain/types.h"

/// Prints the current packet's number, time, verdict and trace as one line of JSON.
void explain_json_packet(FILE *out, const struct explain *explain);

/// Prints the summary of all packets (the policy's counters, and sums) as one line of JSON.
void explain_json_end(FILE *out, const struct explain *explain);

#endif
