// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/http.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "names/blank.h"
#include "names/cursor.h"
#include "names/host.h"

/// Methods of RFC 9110, section 9, and RFC 5789. A line with such a method is a request even
/// without a version (HTTP/0.9).
static const char *const METHODS[] = {
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
};
static const char PROTOCOL[] = "HTTP";
static const char HOST[] = "host";
static const char VERSION[] = "HTTP/1."; // start of a request's version; a digit follows

/// Parts of a request. The cursors point into the received bytes.
struct request {
    struct names_cursor method;
    struct names_cursor target;
    bool has_host;
    struct names_cursor host; // value of the field Host
    uint8_t minor;            // minor version of HTTP, an ASCII digit
    struct names_body body;
};

/// Kind of the first line of a message, as the most lenient server interprets it.
enum kind {
    REQUEST, // the line begins a request
    PERHAPS, // the line begins a request if a header field Host follows
    NOTHING, // no server accepts the line as the beginning of a request
};

/// Returns true if some server treats a byte as a space (RFC 9112, section 3). Python accepts all
/// spaces of Latin-1 (str.split).
static bool is_blank(uint8_t byte) {
    return byte == ' ' || byte == '\t' || (byte >= 0x0b && byte <= '\r') ||
           (byte >= 0x1c && byte <= 0x1f) || byte == 0x85 || byte == 0xa0;
}

/// Returns true if some server skips a byte that precedes a request.
static bool is_leading(uint8_t byte) { return is_blank(byte) || byte == '\n'; }

/// Returns true for CR and LF. Servers skip empty lines before a request (RFC 9112, section 2.2).
static bool is_line_end(uint8_t byte) { return byte == '\r' || byte == '\n'; }

/// Returns true if a byte may surround a field's value (RFC 9110, section 5.6.3).
static bool is_space(uint8_t byte) { return byte == ' ' || byte == '\t'; }

/// Returns true if a byte is valid in a token (RFC 9110, section 5.6.2).
static bool is_token(uint8_t byte) {
    return isalnum(byte) || (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte));
}

/// Returns true if a byte is accepted in a request target: it is no space or ASCII control
/// character.
static bool is_visible(uint8_t byte) { return byte > ' ' && byte != 0x7f; }

/// Returns true if a byte is valid in a scheme (RFC 3986, section 3.1).
static bool is_scheme(uint8_t byte) {
    return isalnum(byte) || byte == '+' || byte == '-' || byte == '.';
}

/// Returns true if a byte of a target doesn't end the target's authority (RFC 3986, section 3.2).
static bool is_authority(uint8_t byte) { return byte != '/' && byte != '?' && byte != '#'; }

/// Returns true if a byte is accepted in an authority: it has the same meaning for all servers.
static bool is_plain(uint8_t byte) { return is_visible(byte) && !strchr("\"#%,/;<>?\\", byte); }

/// Returns true if a byte is valid in a port.
static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/// Returns the number of bytes at the start for which `is_kind` is true. Inlined, so that it calls
/// no function per byte.
__attribute__((always_inline)) static inline uint32_t span(const uint8_t *bytes, uint32_t length,
                                                           bool (*is_kind)(uint8_t)) {
    uint32_t at = 0;

    while (at < length && is_kind(bytes[at]))
        at++;
    return at;
}

/// Returns true if there are bytes and `is_kind` is true for all of them.
__attribute__((always_inline)) static inline bool is_all(const uint8_t *bytes, uint32_t length,
                                                         bool (*is_kind)(uint8_t)) {
    return length > 0 && span(bytes, length, is_kind) == length;
}

enum names_state names_http_begins(const uint8_t *bytes, uint32_t length,
                                   struct names_progress *progress) {
    if (progress->has_begun)
        return NAMES_KNOWN;
    if (progress->searched == progress->line) {
        progress->line += span(bytes + progress->line, length - progress->line, is_leading);
        progress->searched = progress->line;
    }
    progress->searched += span(bytes + progress->searched, length - progress->searched, is_token);
    if (progress->searched == length)
        return NAMES_UNDECIDED;
    if (progress->searched == progress->line || !is_blank(bytes[progress->searched]))
        return NAMES_NONE;
    progress->has_begun = true;
    progress->place = progress->line;
    return NAMES_KNOWN;
}

/// Consumes a line that ends with LF or with CR and LF (RFC 9112, section 2.2).
/// - line: out: the line without its line end.
/// - Returns false if the line end is missing.
static bool consume_line(const uint8_t *bytes, uint32_t length, struct names_progress *progress,
                         struct names_cursor *line) {
    const uint32_t left = length - progress->searched;
    const uint8_t *end = left ? memchr(bytes + progress->searched, '\n', left) : NULL;

    if (!end) {
        progress->searched = length;
        return false;
    }
    *line = names_cursor_begin(bytes + progress->place, (uint32_t)(end - bytes) - progress->place);
    if (line->length > 0 && line->bytes[line->length - 1] == '\r')
        line->length--;
    progress->place = (uint32_t)(end - bytes) + 1;
    progress->searched = progress->place;
    return true;
}

/// Consumes a word and the blanks (see is_blank) before it. Returns the word.
static struct names_cursor consume_part(struct names_cursor *line) {
    uint32_t length = 0;

    names_cursor_part(line, span(line->bytes, line->length, is_blank));
    while (length < line->length && !is_blank(line->bytes[length]))
        length++;
    return names_cursor_part(line, length);
}

/// Returns the length of a word's part before the first slash: a version's protocol name (4 in
/// HTTP/1.1 and RTSP/1.0). Returns 0 for a word without a slash.
static uint32_t version_name(struct names_cursor word) {
    const uint8_t *end = word.length ? memchr(word.bytes, '/', word.length) : NULL;

    return end ? (uint32_t)(end - word.bytes) : 0;
}

/// Returns true if a word is one of METHODS.
static bool is_method(struct names_cursor word) {
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++) {
        if (strlen(METHODS[i]) == word.length && memcmp(word.bytes, METHODS[i], word.length) == 0)
            return true;
    }
    return false;
}

/// Returns true if some server accepts a word as a target: a word that begins with `/` or `*`, or
/// contains ":/".
static bool is_target(struct names_cursor word) {
    return word.length > 0 && (word.bytes[0] == '/' || word.bytes[0] == '*' ||
                               memmem(word.bytes, word.length, ":/", 2));
}

/// Returns the kind of a first line that begins with a word and a blank. The line is a request if
/// its last word is a version of HTTP, in upper or lower case. It is also a request if its first
/// word is in METHODS and its last word is no version of another protocol (RTSP, SIP). If it has a
/// version of another protocol or a target, the following lines decide: some servers accept RTSP,
/// and some accept other methods without a version (HTTP/0.9).
static enum kind kind_of(struct names_cursor line) {
    const struct names_cursor first = consume_part(&line), target = consume_part(&line);
    struct names_cursor last = target, next;
    bool is_other;
    uint32_t name;

    for (next = consume_part(&line); next.length > 0; next = consume_part(&line))
        last = next;
    name = version_name(last);
    if (name == sizeof PROTOCOL - 1 &&
        strncasecmp((const char *)last.bytes, PROTOCOL, sizeof PROTOCOL - 1) == 0)
        return REQUEST;
    is_other = last.bytes != target.bytes && name > 0;
    for (uint32_t i = 0; i < name; i++)
        is_other = is_other && isupper(last.bytes[i]);
    if (!is_other && is_method(first))
        return REQUEST;
    return is_other || is_target(target) ? PERHAPS : NOTHING;
}

/// Consumes a word and the space after it. Returns the word.
static struct names_cursor consume_word(struct names_cursor *line) {
    uint32_t length = 0;
    struct names_cursor word;

    while (length < line->length && line->bytes[length] != ' ')
        length++;
    word = names_cursor_part(line, length);
    names_cursor_part(line, 1);
    return word;
}

/// Parses a request line into request. Returns false unless the line has the form of RFC 9112,
/// section 3, with single spaces and a version HTTP/1.x.
static bool parse_request_line(struct names_cursor line, struct request *request) {
    request->method = consume_word(&line);
    request->target = consume_word(&line);
    request->minor = line.length == sizeof VERSION ? line.bytes[sizeof VERSION - 1] : 0;
    return is_all(request->method.bytes, request->method.length, is_token) &&
           is_all(request->target.bytes, request->target.length, is_visible) &&
           line.length == sizeof VERSION && memcmp(line.bytes, VERSION, sizeof VERSION - 1) == 0 &&
           is_digit(line.bytes[sizeof VERSION - 1]);
}

/// Returns a field's value without spaces and tabs around it.
static struct names_cursor trim(struct names_cursor value) {
    names_cursor_part(&value, span(value.bytes, value.length, is_space));
    while (value.length > 0 && is_space(value.bytes[value.length - 1]))
        value.length--;
    return value;
}

/// Parses the line of a header field (RFC 9112, section 5). Returns false if the line is malformed
/// or folded, if it is a second Host with another value, if the value of Host begins or ends with a
/// byte that some server treats as a space, or if names_body_field rejects the field.
static bool parse_field(const uint8_t *bytes, struct names_cursor line,
                        struct names_progress *progress) {
    const uint8_t *colon = memchr(line.bytes, ':', line.length);
    struct names_cursor name, value;

    if (!colon)
        return false;
    name = names_cursor_part(&line, (uint32_t)(colon - line.bytes));
    names_cursor_part(&line, 1);
    if (!is_all(name.bytes, name.length, is_token) || memchr(line.bytes, 0, line.length) ||
        memchr(line.bytes, '\r', line.length))
        return false;
    value = trim(line);
    if (name.length != sizeof HOST - 1 ||
        strncasecmp((const char *)name.bytes, HOST, name.length) != 0)
        return names_body_field(name, value, &progress->body);
    if (value.length > 0 && (is_blank(value.bytes[0]) || is_blank(value.bytes[value.length - 1])))
        return false;
    if (progress->has_host)
        return value.length == progress->host_bytes &&
               memcmp(value.bytes, bytes + progress->host, value.length) == 0;
    progress->has_host = true;
    progress->host = (uint32_t)(value.bytes - bytes);
    progress->host_bytes = value.length;
    return true;
}

/// Removes userinfo and port from an authority (RFC 9110, section 4.2). The rest is a name, an IPv4
/// address, or an IPv6 address in brackets.
/// - has_user: true if userinfo is allowed.
/// - name: out: name or address; empty if the authority is empty.
/// - Returns false if servers may read the authority differently.
static bool strip_authority(struct names_cursor authority, bool has_user,
                            struct names_cursor *name) {
    struct names_cursor left = authority, inner;
    const uint8_t *user, *end;

    *name = authority;
    if (authority.length == 0)
        return true;
    user = memchr(authority.bytes, '@', authority.length);
    if (user) {
        names_cursor_part(&left, (uint32_t)(user + 1 - authority.bytes));
        if (!has_user || left.length == 0 || memchr(left.bytes, '@', left.length))
            return false;
    }
    if (left.bytes[0] == '[') {
        end = memchr(left.bytes, ']', left.length);
        end = end ? end + 1 : left.bytes;
    } else {
        end = memchr(left.bytes, ':', left.length);
        end = end ? end : left.bytes + left.length;
    }
    *name = names_cursor_part(&left, (uint32_t)(end - left.bytes));
    inner = *name;
    if (inner.length >= 2 && inner.bytes[0] == '[') {
        inner.bytes++;
        inner.length -= 2;
    }
    return is_all(authority.bytes, authority.length, is_plain) && inner.length > 0 &&
           !memchr(inner.bytes, '[', inner.length) && !memchr(inner.bytes, ']', inner.length) &&
           (left.length == 0 || left.bytes[0] == ':') &&
           (left.length < 2 || is_all(left.bytes + 1, left.length - 1, is_digit));
}

/// Finds the authority in a target (RFC 9112, section 3.2).
/// - authority: out: authority with userinfo and port; empty if the target is a path or `*`.
/// - Returns false if the target has no valid form.
static bool find_authority(const struct request *request, struct names_cursor *authority) {
    struct names_cursor target = request->target;
    uint32_t scheme;

    *authority = names_cursor_begin(target.bytes, 0);
    if (request->method.length == 7 && memcmp(request->method.bytes, "CONNECT", 7) == 0) {
        *authority = target;
        return true;
    }
    if (target.bytes[0] == '/' || (target.length == 1 && target.bytes[0] == '*'))
        return true;
    scheme = span(target.bytes, target.length, is_scheme);
    names_cursor_part(&target, scheme);
    if (target.length < 3 || memcmp(target.bytes, "://", 3) != 0)
        return false;
    names_cursor_part(&target, 3);
    *authority = names_cursor_part(&target, span(target.bytes, target.length, is_authority));
    return scheme > 0 && authority->length > 0;
}

/// Stores a request's method and host in names, whose fields must be empty. Returns false if the
/// request is invalid, or the names in the target's authority and in the field Host differ: RFC
/// 9112, section 3.2.2, prefers the authority, but some servers use Host.
static bool store_request(struct request *request, struct names *names) {
    const struct names_cursor method = request->method;
    const bool is_connect = method.length == 7 && memcmp(method.bytes, "CONNECT", 7) == 0;
    struct names_cursor authority, target_name, host_name, name;

    if (!find_authority(request, &authority) ||
        !strip_authority(authority, !is_connect, &target_name) ||
        !strip_authority(request->host, false, &host_name) ||
        !names_body_finish(method, request->minor, &request->body))
        return false;
    if (request->has_host && authority.length > 0 &&
        (target_name.length != host_name.length ||
         strncasecmp((const char *)target_name.bytes, (const char *)host_name.bytes,
                     host_name.length) != 0))
        return false;
    names->method_length =
        method.length < NAMES_METHOD_BYTES ? (uint8_t)method.length : NAMES_METHOD_BYTES;
    memcpy(names->method, method.bytes, names->method_length);
    if (method.length > NAMES_METHOD_BYTES)
        names->method[NAMES_METHOD_BYTES - 1] = ' ';
    name = authority.length > 0 ? target_name : host_name;
    return name.length == 0 || names_host_fold(name.bytes, name.length, names);
}

/// Returns true if a line begins like a field Host for the most lenient server.
static bool is_host(struct names_cursor line) {
    names_cursor_part(&line, span(line.bytes, line.length, is_blank));
    if (line.length < sizeof HOST - 1 ||
        strncasecmp((const char *)line.bytes, HOST, sizeof HOST - 1) != 0)
        return false;
    names_cursor_part(&line, sizeof HOST - 1);
    names_cursor_part(&line, span(line.bytes, line.length, is_blank));
    return line.length > 0 && line.bytes[0] == ':';
}

bool names_http_shows_host(const uint8_t *bytes, uint32_t length) {
    struct names_cursor left = names_cursor_begin(bytes, length);

    while (!is_host(left)) {
        uint32_t line = 0;

        while (line < left.length && !is_line_end(left.bytes[line]))
            line++;
        if (line == left.length)
            return false;
        names_cursor_part(&left, line + 1);
    }
    return true;
}

/// Parses the first line that is not empty.
/// - Returns NAMES_NONE if the following lines must be parsed, too; NAMES_UNDECIDED if the line is
///   incomplete; otherwise the final result: NAMES_KNOWN with the protocol NAMES_OTHER, or
///   NAMES_UNREADABLE.
static enum names_state parse_first(const uint8_t *bytes, uint32_t length,
                                    struct names_progress *progress, struct names *names) {
    const uint32_t before = progress->line;
    struct request request = {0};
    struct names_cursor line;

    if (!consume_line(bytes, length, progress, &line))
        return NAMES_UNDECIDED;
    progress->has_line = true;
    switch (kind_of(line)) {
    case REQUEST:
        break;
    case PERHAPS:
        progress->is_perhaps = true;
        return NAMES_NONE;
    default:
        names->protocol = NAMES_OTHER;
        return NAMES_KNOWN;
    }
    if (span(bytes, before, is_line_end) < before || !parse_request_line(line, &request))
        return NAMES_UNREADABLE;
    return NAMES_NONE;
}

/// Parses the lines after a first line whose kind is PERHAPS. Returns NAMES_UNREADABLE at a line
/// with Host. Returns NAMES_KNOWN with the protocol NAMES_OTHER at the end of the header, or at a
/// line that is no header field. Otherwise returns NAMES_UNDECIDED.
static enum names_state parse_perhaps(const uint8_t *bytes, uint32_t length,
                                      struct names_progress *progress, struct names *names) {
    struct names_cursor line;

    while (consume_line(bytes, length, progress, &line)) {
        if (names_http_shows_host(line.bytes, line.length))
            return NAMES_UNREADABLE;
        if (line.length == 0 ||
            (!is_blank(line.bytes[0]) && !memchr(line.bytes, ':', line.length))) {
            names->protocol = NAMES_OTHER;
            return NAMES_KNOWN;
        }
    }
    return NAMES_UNDECIDED;
}

/// Parses the request line again after the last header field, and stores the request's method and
/// host. Returns NAMES_KNOWN, or NAMES_UNREADABLE if servers may read the request differently.
/// - body: out: kind of body, if NAMES_KNOWN is returned.
static enum names_state finish(const uint8_t *bytes, uint32_t length,
                               const struct names_progress *progress, struct names_body *body,
                               struct names *names) {
    struct names_progress start = {.place = progress->line, .searched = progress->line};
    struct request request = {
        .has_host = progress->has_host,
        .host = names_cursor_begin(bytes + progress->host, progress->host_bytes),
        .body = progress->body,
    };
    struct names_cursor line;

    if (!consume_line(bytes, length, &start, &line) || !parse_request_line(line, &request) ||
        !store_request(&request, names))
        return NAMES_UNREADABLE;
    *body = request.body;
    body->header_bytes = progress->place;
    return NAMES_KNOWN;
}

/// Parses a request into names, whose fields must be empty, and the kind of its body into body.
/// Returns the state like names_http_parse.
static enum names_state parse_request(const uint8_t *bytes, uint32_t length,
                                      struct names_progress *progress, struct names_body *body,
                                      struct names *names) {
    struct names_cursor line;

    if (!progress->has_line) {
        const enum names_state state = parse_first(bytes, length, progress, names);

        if (state != NAMES_NONE)
            return state;
    }
    if (progress->is_perhaps)
        return parse_perhaps(bytes, length, progress, names);
    while (consume_line(bytes, length, progress, &line)) {
        if (line.length == 0)
            return finish(bytes, length, progress, body, names);
        if (!parse_field(bytes, line, progress))
            return NAMES_UNREADABLE;
    }
    return NAMES_UNDECIDED;
}

enum names_state names_http_parse(const uint8_t *bytes, uint32_t length, bool whole,
                                  struct names_progress *progress, struct names_body *body,
                                  struct names *names) {
    enum names_state state;

    names_blank_fill(NAMES_UNDECIDED, NAMES_HTTP, names);
    state = parse_request(bytes, length, progress, body, names);
    return names_blank_finish(state, whole, names);
}
