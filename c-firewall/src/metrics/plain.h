// SPDX-License-Identifier: GPL-2.0-or-later
// Which of the two formats of metrics a client wants, and the older one: Prometheus' text format
// 0.0.4, made of OpenMetrics. Pure.
#ifndef METRICS_PLAIN_H
#define METRICS_PLAIN_H

#include <stdbool.h>

#define METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"

/// Whether an Accept header (NULL = none) asks for the older format: it names text/plain and not
/// OpenMetrics.
bool metrics_plain_is_wanted(const char *accept);

/// Makes the older format of what metrics_text made: families have the names of their samples, and
/// what it does not know is left out.
/// - Returns a string that the caller frees, or NULL if there is no memory.
char *metrics_plain(const char *openmetrics);

#endif
