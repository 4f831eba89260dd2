// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/host.h"

bool names_host_fold(const uint8_t *bytes, uint32_t length, struct names *names) {
    (void)bytes;
    (void)length;
    (void)names;
    return false;
}
