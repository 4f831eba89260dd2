// SPDX-License-Identifier: GPL-2.0-or-later
// What `explain` prints as text.
#ifndef EXPLAIN_TEXT_H
#define EXPLAIN_TEXT_H

#include <stdio.h>

#include "explain/types.h"

/// Prints the packet at hand, as text.
void explain_text_packet(FILE *out, const struct explain *explain);

/// Prints what stands at the end, as text.
void explain_text_end(FILE *out, const struct explain *explain);

#endif
