// SPDX-License-Identifier: GPL-2.0-or-later
// Conversion of a host name for comparisons: lower case, without a final dot.
#ifndef NAMES_HOST_H
#define NAMES_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

/// Writes a name into names->host: ASCII in lower case, without a final dot; other bytes stay.
/// - Returns false if the name without its final dot is empty or longer than NAMES_HOST_BYTES;
///   names->host then stays unchanged.
bool names_host_fold(const uint8_t *bytes, uint32_t length, struct names *names);

#endif
