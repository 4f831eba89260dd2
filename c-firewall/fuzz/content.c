// SPDX-License-Identifier: GPL-2.0-or-later
#include "content.h"

#include <string.h>

#define ALLOWED "www.amused.example"

static void put(struct content *content, const void *bytes, uint32_t length) {
    memcpy(content->bytes + content->length, bytes, length);
    content->length += length;
}

static void put_text(struct content *content, const char *text) {
    put(content, text, (uint32_t)strlen(text));
}

/// Adds a big-endian number of 1 or 2 bytes.
static void put_number(struct content *content, uint32_t number, uint32_t bytes) {
    const uint8_t both[] = {(uint8_t)(number >> 8), (uint8_t)number};

    put(content, both + 2 - bytes, bytes);
}

/// Adds a TLS vector: its length in length_bytes bytes, and its bytes.
static void put_vector(struct content *content, uint32_t length_bytes,
                       const struct content *vector) {
    put_number(content, vector->length, length_bytes);
    put(content, vector->bytes, vector->length);
}

/// Adds the extensions of a ClientHello: padding, server name, versions.
static void put_extensions(struct content *content, const char *host, uint32_t padding) {
    const uint32_t host_bytes = (uint32_t)strlen(host);
    struct content extensions = {0};

    put_number(&extensions, 21, 2);
    put_number(&extensions, padding, 2);
    extensions.length += padding;
    put_number(&extensions, 0, 2);
    put_number(&extensions, host_bytes + 5, 2);
    put_number(&extensions, host_bytes + 3, 2);
    put_number(&extensions, 0, 1);
    put_number(&extensions, host_bytes, 2);
    put_text(&extensions, host);
    put(&extensions, "\0\x2b\0\3\2\3\4", 7);
    put_vector(content, 2, &extensions);
}

static void put_tls(struct content *content, const char *host, uint32_t padding) {
    struct content hello = {0}, handshake = {0};

    put(&hello, "\3\3", 2);
    hello.length += 32;
    put(&hello, "\0\0\2\x13\1\1\0", 7);
    put_extensions(&hello, host, padding);
    put(&handshake, "\1\0", 2);
    put_vector(&handshake, 2, &hello);
    put(content, "\x16\3\1", 3);
    put_vector(content, 2, &handshake);
    put_text(content, "\x17\3\3");
    put(content,
        "\0\x10"
        "0123456789abcdef",
        18);
}

static void put_request(struct content *content, const char *host) {
    put_text(content, "POST /a HTTP/1.1\r\nContent-Length: 4\r\nHost: ");
    put_text(content, host);
    put_text(content, "\r\n\r\nbody");
}

/// Adds a DNS query with its length before it, as over TCP.
static void put_query(struct content *content, const char *host) {
    struct content query = {0};

    put(&query, "\x12\x34\1\0\0\1\0\0\0\0\0\0", 12);
    for (const char *label = host; *label;) {
        const char *end = strchrnul(label, '.');

        put_number(&query, (uint32_t)(end - label), 1);
        put(&query, label, (uint32_t)(end - label));
        label = *end ? end + 1 : end;
    }
    put(&query, "\0\0\1\0\1", 5);
    put_vector(content, 2, &query);
}

void content_make(enum content_kind kind, bool is_denied, uint32_t padding,
                  struct content *content) {
    const char *host = is_denied ? CONTENT_DENIED : ALLOWED;

    memset(content, 0, sizeof *content);
    if (kind == CONTENT_TLS) {
        put_tls(content, host, padding);
    } else if (kind == CONTENT_HTTP) {
        put_request(content, ALLOWED);
        put_request(content, host);
    } else {
        put_query(content, ALLOWED);
        put_query(content, host);
        put_query(content, ALLOWED);
    }
}
