// SPDX-License-Identifier: GPL-2.0-or-later
// First bytes of clients that request a name: a TLS ClientHello, HTTP requests, DNS queries.
#ifndef CONTENT_H
#define CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#define CONTENT_DENIED "www.denied.example"

enum { CONTENT_BYTES = 1600 };

enum content_kind { CONTENT_TLS, CONTENT_HTTP, CONTENT_DNS, CONTENT_COUNT };

/// First bytes that a client sends.
struct content {
    uint32_t length;
    uint8_t bytes[CONTENT_BYTES];
};

/// Writes the first bytes of a client that requests a denied (is_denied) or an allowed name. The
/// number of bytes is the same for both. HTTP and DNS clients first request an allowed name.
/// - padding: number of padding bytes in a ClientHello, at most 255.
void content_make(enum content_kind kind, bool is_denied, uint32_t padding,
                  struct content *content);

#endif
