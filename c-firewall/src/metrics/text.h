// SPDX-License-Identifier: GPL-2.0-or-later
// The metrics as text. Pure, and the same bytes in both firewalls, but for the label `twin`.
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <stdint.h>

#include "state/snapshot.h"

/// Makes the text in the format OpenMetrics 1.0.
/// - snapshot: with rules.
/// - counts: COUNT_COUNT of them, as counts_get gives them.
/// - resident_bytes: memory of the process.
/// - Returns a string that the caller frees, or NULL if there is no memory.
char *metrics_text(const struct snapshot *snapshot, const uint64_t *counts,
                   uint64_t resident_bytes);

#endif
