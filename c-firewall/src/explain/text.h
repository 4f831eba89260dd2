// SPDX-License-Identifier: GPL-2.0-or-later
// Output of `explain` as text.
#ifndef EXPLAIN_TEXT_H
#define EXPLAIN_TEXT_H

#include <stdio.h>

#include "explain/types.h"

/// Prints the current packet, its trace, its verdict and the nearest miss as text.
void explain_text_packet(FILE *out, const struct explain *explain);

/// Prints the summary of all packets (the policy's counters, and sums) as text.
void explain_text_end(FILE *out, const struct explain *explain);

#endif
