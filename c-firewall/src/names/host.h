// SPDX-License-Identifier: GPL-2.0-or-later
// A host's name as it is compared: in lower case, without the dot at its end.
#ifndef NAMES_HOST_H
#define NAMES_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

/// Writes a name into names->host: ASCII in lower case, one dot at its end dropped; other bytes
/// stay.
/// - Returns false, names->host untouched, if it is then empty or longer than NAMES_HOST_BYTES.
bool names_host_fold(const uint8_t *bytes, uint32_t length, struct names *names);

#endif
