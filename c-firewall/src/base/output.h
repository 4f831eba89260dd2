// SPDX-License-Identifier: GPL-2.0-or-later
// Output on stdout.
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

/// Writes a report to stdout, flushes stdout, and frees the report. Logs a warning if the report is
/// NULL: there was no memory for it.
void output_print(char *text);

#endif
