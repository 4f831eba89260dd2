// SPDX-License-Identifier: GPL-2.0-or-later
// Bytes of clients that ask for a name: a TLS ClientHello, HTTP requests, DNS questions.
#ifndef CONTENT_H
#define CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#define CONTENT_DENIED "www.denied.example"

enum { CONTENT_BYTES = 1600 };

enum content_kind { CONTENT_TLS, CONTENT_HTTP, CONTENT_DNS, CONTENT_COUNT };

/// First bytes of a client.
struct content {
    uint32_t length;
    uint8_t bytes[CONTENT_BYTES];
};

/// Writes a client's first bytes. Those for the denied and the allowed name have the same length.
/// HTTP and DNS ask for another allowed name first.
/// - padding: of a ClientHello, up to 255 bytes.
void content_make(enum content_kind kind, bool is_denied, uint32_t padding,
                  struct content *content);

#endif
