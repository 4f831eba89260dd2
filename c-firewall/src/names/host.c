// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/host.h"

#include <ctype.h>

bool names_host_fold(const uint8_t *bytes, uint32_t length, struct names *names) {
    if (length > 0 && bytes[length - 1] == '.')
        length--;
    if (length == 0 || length > NAMES_HOST_BYTES)
        return false;
    for (uint32_t i = 0; i < length; i++)
        names->host[i] = (uint8_t)tolower(bytes[i]);
    names->host_length = (uint8_t)length;
    return true;
}
