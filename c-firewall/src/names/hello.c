// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/hello.h"

#include <string.h>

#include "names/blank.h"
#include "names/cursor.h"
#include "names/host.h"

enum {
    // Maximum size of a handshake message without its type and length, in bytes.
    BODY_BYTES_MAX = NAMES_HELLO_BYTES_MAX - NAMES_HELLO_HEADER_BYTES,
    RANDOM_BYTES = 32,
    SESSION_BYTES_MAX = 32,
    // Number of TLS 1.2. Without the extension supported_versions no server negotiates a higher
    // version (RFC 8446, section 4.2.1).
    VERSION_1_2 = 0x0303,
    HOST_NAME = 0, // NameType of a host name in the extension server_name

    // Types of the extensions that are parsed, and a bit for each type that has occurred.
    SERVER_NAME = 0,
    SERVER_NAME_SEEN = 1 << 0,
    ALPN = 16,
    ALPN_SEEN = 1 << 1,
    SUPPORTED_VERSIONS = 43,
    SUPPORTED_VERSIONS_SEEN = 1 << 2,
    ECH = 0xfe0d,
    ECH_SEEN = 1 << 3,
};

/// Parses the extension server_name (RFC 6066, section 3). Returns false unless it is a list of
/// exactly one host name without a port: nginx removes a port, but other servers don't.
static bool parse_server_name(struct names_cursor *value, struct names *names) {
    struct names_cursor list = names_cursor_vector(value, 2);
    const uint32_t kind = names_cursor_number(&list, 1);
    const struct names_cursor name = names_cursor_vector(&list, 2);

    return !list.cut && list.length == 0 && value->length == 0 && kind == HOST_NAME &&
           !memchr(name.bytes, ':', name.length) && names_host_fold(name.bytes, name.length, names);
}

/// Parses the ALPN list (RFC 7301, section 3.1). Returns false if it is malformed or longer than
/// NAMES_ALPN_BYTES, or a protocol is empty.
static bool parse_alpn(struct names_cursor *value, struct names *names) {
    const struct names_cursor list = names_cursor_vector(value, 2);
    struct names_cursor left = list;

    if (value->length > 0 || list.length == 0 || list.length > NAMES_ALPN_BYTES)
        return false;
    while (left.length > 0) {
        if (names_cursor_vector(&left, 1).length == 0)
            return false;
    }
    memcpy(names->alpn, list.bytes, list.length);
    names->alpn_length = (uint8_t)list.length;
    return true;
}

/// Parses the offered versions (RFC 8446, section 4.2.1), and stores the highest version. A version
/// other than 0x03xx is skipped: it is GREASE (RFC 8701) or a draft. Returns false if the list is
/// malformed.
static bool parse_versions(struct names_cursor *value, struct names *names) {
    struct names_cursor list = names_cursor_vector(value, 1);

    if (value->length > 0 || list.length == 0)
        return false;
    names->version = 0;
    while (list.length > 0) {
        const uint16_t version = (uint16_t)names_cursor_number(&list, 2);

        if (version >> 8 == 3 && version > names->version)
            names->version = version;
    }
    return !list.cut;
}

/// Parses the extension server_name, ALPN, supported_versions or ECH, and ignores other extensions.
/// Returns false if one of these four is repeated, or one of the first three is malformed.
/// - seen: in/out: *_SEEN bits of the extensions so far; a ClientHello may not repeat an extension
///   (RFC 8446, section 4.2).
static bool parse_extension(uint32_t kind, struct names_cursor *value, uint32_t *seen,
                            struct names *names) {
    uint32_t bit;

    if (kind == SERVER_NAME)
        bit = SERVER_NAME_SEEN;
    else if (kind == ALPN)
        bit = ALPN_SEEN;
    else if (kind == SUPPORTED_VERSIONS)
        bit = SUPPORTED_VERSIONS_SEEN;
    else if (kind == ECH)
        bit = ECH_SEEN;
    else
        return true;
    if (*seen & bit)
        return false;
    *seen |= bit;
    switch (kind) {
    case SERVER_NAME:
        return parse_server_name(value, names);
    case ALPN:
        return parse_alpn(value, names);
    case SUPPORTED_VERSIONS:
        return parse_versions(value, names);
    default:
        names->ech = true;
        return true;
    }
}

/// Parses the extensions at the end of a ClientHello. Returns false if their lengths are wrong or
/// parse_extension returns false.
static bool parse_extensions(struct names_cursor *body, struct names *names) {
    struct names_cursor extensions = names_cursor_vector(body, 2);
    uint32_t seen = 0;

    if (extensions.cut || body->length > 0)
        return false;
    while (extensions.length > 0) {
        const uint32_t kind = names_cursor_number(&extensions, 2);
        struct names_cursor value = names_cursor_vector(&extensions, 2);

        if (value.cut || !parse_extension(kind, &value, &seen, names))
            return false;
    }
    return true;
}

/// Parses a ClientHello after its header (type and length). Returns false if it is malformed.
/// Clients of TLS 1.2 or older may omit the extensions.
static bool parse_body(struct names_cursor *body, struct names *names) {
    const uint32_t version = names_cursor_number(body, 2);
    struct names_cursor session, suites, compressions;

    names_cursor_part(body, RANDOM_BYTES);
    session = names_cursor_vector(body, 1);
    suites = names_cursor_vector(body, 2);
    compressions = names_cursor_vector(body, 1);
    if (body->cut || version >> 8 != 3 || session.length > SESSION_BYTES_MAX ||
        suites.length == 0 || suites.length % 2 != 0 || compressions.length == 0)
        return false;
    names->version = (uint16_t)(version < VERSION_1_2 ? version : VERSION_1_2);
    return body->length == 0 || parse_extensions(body, names);
}

bool names_hello_is_settled(const uint8_t *head, uint32_t came) {
    const uint32_t header = came < NAMES_HELLO_HEADER_BYTES ? came : NAMES_HELLO_HEADER_BYTES;
    struct names_cursor message = names_cursor_begin(head, header);
    const uint32_t kind = names_cursor_number(&message, 1);
    const uint32_t length = names_cursor_number(&message, 3);

    return (came > 0 && kind != NAMES_HELLO_CLIENT_HELLO) || length > BODY_BYTES_MAX ||
           (!message.cut && NAMES_HELLO_HEADER_BYTES + length <= came);
}

/// Parses the first message of a handshake for which names_hello_is_settled is true into names,
/// whose fields must be empty. Returns NAMES_KNOWN, or NAMES_UNREADABLE unless the message is a
/// complete, valid ClientHello.
static enum names_state parse_message(const uint8_t *handshake, uint32_t length,
                                      struct names *names) {
    struct names_cursor message = names_cursor_begin(handshake, length);
    const uint32_t kind = names_cursor_number(&message, 1);
    struct names_cursor body = names_cursor_vector(&message, 3);

    if (kind != NAMES_HELLO_CLIENT_HELLO || body.cut || !parse_body(&body, names))
        return NAMES_UNREADABLE;
    return NAMES_KNOWN;
}

enum names_state names_hello_parse(const uint8_t *handshake, uint32_t length,
                                   enum names_protocol protocol, struct names *names) {
    enum names_state state = NAMES_UNDECIDED;

    names_blank_fill(NAMES_UNDECIDED, protocol, names);
    if (names_hello_is_settled(handshake, length))
        state = parse_message(handshake, length, names);
    return names_blank_finish(state, false, names);
}

uint32_t names_hello_length(const uint8_t *handshake, uint32_t length) {
    struct names_cursor message = names_cursor_begin(handshake, length);

    names_cursor_number(&message, 1);
    return NAMES_HELLO_HEADER_BYTES + names_cursor_vector(&message, 3).length;
}

bool names_hello_is_same(const struct names *first, const struct names *again) {
    return memcmp(first->host, again->host, sizeof first->host) == 0 &&
           memcmp(first->alpn, again->alpn, sizeof first->alpn) == 0 &&
           first->version == again->version && first->ech == again->ech;
}
