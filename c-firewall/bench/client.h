// SPDX-License-Identifier: GPL-2.0-or-later
// What clients say first: a ClientHello in a record or in an Initial packet of QUIC, a request of
// HTTP, and a query of DNS; those of the Rust twin's benches/names/client.rs.
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stddef.h>
#include <stdint.h>

enum { CLIENT_BYTES_MAX = 2048 };

/// Bytes that are put together; there is room for all.
struct client_bytes {
    size_t count;
    uint8_t at[CLIENT_BYTES_MAX];
};

/// A ClientHello as a browser's, with a key share of so many bytes.
struct client_bytes client_hello(size_t share_bytes);

/// A handshake in a record of TLS.
struct client_bytes client_record(const struct client_bytes *handshake);

/// A handshake in the CRYPTO frame of an Initial packet of QUIC's version 1.
struct client_bytes client_initial(const struct client_bytes *handshake);

/// A request of HTTP.
struct client_bytes client_request(void);

/// A query of DNS for the addresses of a name.
struct client_bytes client_query(void);

/// Adds bytes.
void client_put(struct client_bytes *to, const void *bytes, size_t count);

/// Adds a number of so many bytes, the highest one first.
void client_put_number(struct client_bytes *to, size_t bytes, size_t number);

#endif
