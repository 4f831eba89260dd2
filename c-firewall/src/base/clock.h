// SPDX-License-Identifier: GPL-2.0-or-later
// Time of day.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/// Returns the UNIX time in milliseconds.
uint64_t clock_unix_ms(void);

#endif
