// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/client.h"

#include "names/http.h"
#include "names/record.h"

enum names_state names_client_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names) {
    if (names_record_begins(bytes, length) == NAMES_KNOWN)
        return names_record_read(bytes, length, whole, scratch, names);
    return names_http_read(bytes, length, whole, names);
}
