// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/body.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum {
    // Maximum number of decimal digits in Content-Length: every such value fits into a signed
    // 64-bit number.
    LENGTH_DIGITS_MAX = 18,
    // Maximum number of hexadecimal digits in a chunk's size: every such value fits into a signed
    // 64-bit number.
    SIZE_DIGITS_MAX = 15,
};

static const char LINE_END[] = "\r\n";

/// Methods of requests whose body a server need not read (RFC 9110, section 9.3). Some servers then
/// interpret the body as the next request.
static const char *const BODILESS[] = {"CONNECT", "GET", "HEAD", "OPTIONS", "TRACE"};

/// Returns true if a text equals a word, without regard to case.
static bool is_word(struct names_cursor text, const char *word) {
    return text.length == strlen(word) &&
           strncasecmp((const char *)text.bytes, word, text.length) == 0;
}

/// Parses the value of Content-Length. Returns false if it is malformed or too long, or differs
/// from an earlier Content-Length.
static bool parse_length(struct names_cursor value, struct names_body *body) {
    uint64_t length = 0;

    if (value.length == 0 || value.length > LENGTH_DIGITS_MAX)
        return false;
    for (uint32_t i = 0; i < value.length; i++) {
        if (!isdigit(value.bytes[i]))
            return false;
        length = 10 * length + (uint64_t)(value.bytes[i] - '0');
    }
    if (body->has_length && body->length != length)
        return false;
    body->has_length = true;
    body->length = length;
    return true;
}

bool names_body_field(struct names_cursor name, struct names_cursor value,
                      struct names_body *body) {
    if (is_word(name, "content-length"))
        return parse_length(value, body);
    if (is_word(name, "transfer-encoding")) {
        const bool is_first = !body->is_chunked;

        body->is_chunked = true;
        return is_first && is_word(value, "chunked");
    }
    // Only WebSocket counts: with other protocols (h2c, TLS), requests for other hosts may follow.
    if (is_word(name, "upgrade")) {
        const bool is_websocket = is_word(value, "websocket");

        body->switches = body->switches || is_websocket;
        body->offers_others = body->offers_others || !is_websocket;
    }
    return true;
}

bool names_body_finish(struct names_cursor method, uint8_t minor, struct names_body *body) {
    const bool has_body = body->is_chunked || body->length > 0;

    for (size_t i = 0; i < sizeof BODILESS / sizeof *BODILESS; i++) {
        if (has_body && is_word(method, BODILESS[i]))
            return false;
    }
    if (is_word(method, "connect"))
        body->switches = true;
    body->switches = body->switches && !body->offers_others;
    return !body->is_chunked || (!body->has_length && minor != '0');
}

enum names_state names_body_chunk(const uint8_t *bytes, uint32_t length,
                                  struct names_chunk *chunk) {
    const uint32_t end_bytes = sizeof LINE_END - 1;
    struct names_cursor left = names_cursor_begin(bytes, length);
    uint64_t size = 0;
    uint32_t digits = 0, lines;

    for (; digits < length && isxdigit(bytes[digits]); digits++) {
        if (digits == SIZE_DIGITS_MAX)
            return NAMES_UNREADABLE;
        size = size << 4 | (uint64_t)(isdigit(bytes[digits]) ? bytes[digits] - '0'
                                                             : tolower(bytes[digits]) - 'a' + 10);
    }
    if (digits == length)
        return NAMES_UNDECIDED;
    if (digits == 0)
        return NAMES_UNREADABLE;
    names_cursor_part(&left, digits);
    lines = size > 0 ? 1 : 2; // an empty line after the last chunk ends the body
    for (uint32_t i = 0; i < lines * end_bytes; i++) {
        if (i == left.length)
            return NAMES_UNDECIDED;
        if (left.bytes[i] != (uint8_t)LINE_END[i % end_bytes])
            return NAMES_UNREADABLE;
    }
    *chunk = (struct names_chunk){
        .head_bytes = digits + lines * end_bytes,
        .bytes = size > 0 ? size + end_bytes : 0,
    };
    return NAMES_KNOWN;
}
