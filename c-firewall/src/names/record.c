// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/record.h"

enum names_state names_record_begins(const uint8_t *bytes, uint32_t length) {
    (void)bytes;
    (void)length;
    return NAMES_NONE;
}

enum names_state names_record_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names) {
    (void)whole;
    (void)scratch;
    return names_hello_read(bytes, length, NAMES_TLS, names);
}
