// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/client.h"

#include <string.h>

#include "names/blank.h"
#include "names/http.h"
#include "names/record.h"

/// Parses a client's first bytes that do not begin like TLS, or are too few to show it.
/// - tls: result of names_record_begins for these bytes.
static enum names_state parse_other(const uint8_t *bytes, uint32_t length, bool whole,
                                    enum names_state tls, struct names_progress *progress,
                                    struct names *names) {
    const enum names_state http = names_http_begins(bytes, length, progress);
    enum names_state state;
    struct names_body body;

    if (http == NAMES_KNOWN)
        return names_http_parse(bytes, length, whole, progress, &body, names);
    state = tls == NAMES_NONE && http == NAMES_NONE ? NAMES_KNOWN : NAMES_UNDECIDED;
    names_blank_fill(state, NAMES_OTHER, names);
    return names_blank_finish(state, whole, names);
}

enum names_state names_client_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                    uint8_t scratch[static NAMES_HELLO_BYTES_MAX],
                                    struct names_progress *progress, struct names *names) {
    const enum names_state tls = names_record_begins(bytes, length);
    enum names_state state;

    if (tls == NAMES_KNOWN)
        return names_record_parse(bytes, length, whole, scratch, progress, names);
    state = parse_other(bytes, length, whole, tls, progress, names);
    if (state == NAMES_KNOWN && names->protocol == NAMES_OTHER &&
        names_http_shows_host(bytes, length))
        return names_blank_finish(NAMES_UNREADABLE, whole, names);
    return state;
}

bool names_client_waits(const struct names *names, const struct names_progress *progress,
                        const uint8_t *added, uint32_t length, uint32_t end) {
    switch (names->protocol) {
    case NAMES_TLS:
        return end < progress->wanted;
    case NAMES_HTTP:
        return !memchr(added, '\n', length);
    default:
        return false;
    }
}
