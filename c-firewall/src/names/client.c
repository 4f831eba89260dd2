// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/client.h"

#include "names/blank.h"
#include "names/http.h"
#include "names/record.h"

enum names_state names_client_read(const uint8_t *bytes, uint32_t length, bool whole,
                                   uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                   struct names *names) {
    const enum names_state tls = names_record_begins(bytes, length);
    enum names_state http, state;

    if (tls == NAMES_KNOWN)
        return names_record_read(bytes, length, whole, scratch, names);
    http = names_http_begins(bytes, length);
    if (http == NAMES_KNOWN)
        return names_http_read(bytes, length, whole, names);
    state = tls == NAMES_NONE && http == NAMES_NONE ? NAMES_KNOWN : NAMES_UNDECIDED;
    names_blank_fill(state, NAMES_OTHER, names);
    return names_blank_finish(state, whole, names);
}
