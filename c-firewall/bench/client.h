// SPDX-License-Identifier: GPL-2.0-or-later
// First bytes of clients: a ClientHello in a TLS record or in a QUIC Initial packet, an HTTP
// request, and a DNS query. They are the same in the Rust twin's benches/names/client.rs, except
// for some filler bytes of the ClientHello.
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stddef.h>
#include <stdint.h>

enum { CLIENT_BYTES_MAX = 2048 };

/// Buffer to which the bytes of a message or packet are appended.
struct client_bytes {
    size_t count;
    uint8_t at[CLIENT_BYTES_MAX];
};

/// Returns a ClientHello like a browser's, with a key share of share_bytes bytes.
struct client_bytes client_hello(size_t share_bytes);

/// Returns a TLS record with a handshake message.
struct client_bytes client_record(const struct client_bytes *handshake);

/// Returns an Initial packet of QUIC version 1 with a handshake message in its CRYPTO frame.
struct client_bytes client_initial(const struct client_bytes *handshake);

/// Returns an HTTP request.
struct client_bytes client_request(void);

/// Returns a DNS query for the IPv4 addresses of a name.
struct client_bytes client_query(void);

/// Appends count bytes.
void client_put(struct client_bytes *to, const void *bytes, size_t count);

/// Appends a number in `bytes` bytes, big-endian.
void client_put_number(struct client_bytes *to, size_t bytes, size_t number);

#endif
