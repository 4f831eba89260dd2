// SPDX-License-Identifier: GPL-2.0-or-later
// Output on stdout.
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

/// Writes a report to stdout, flushes and frees it. NULL: logs a warning instead.
void output_print(char *text);

#endif
