// SPDX-License-Identifier: GPL-2.0-or-later
// Initial packets of QUIC: their headers, their protection, which hides them from nobody, and the
// frames in them.
// Formats: RFC 9000, sections 16, 17.2, 19 and A.3; RFC 9001, sections 5.2 to 5.4; RFC 9369,
// section 3 (version 2).
#ifndef NAMES_QUIC_H
#define NAMES_QUIC_H

#include <openssl/sha.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"

enum {
    // Versions that are understood, beside the drafts that servers still take.
    NAMES_QUIC_VERSION_1 = 0x00000001,
    NAMES_QUIC_VERSION_2 = 0x6b3343cf,
    NAMES_QUIC_CONNECTION_BYTES_MAX = 20, // of a connection id (RFC 9000, section 17.2)
};

/// Kind of packet at an offset of a datagram.
enum names_quic_kind {
    NAMES_QUIC_BAD,     // a long header of a version that is understood, malformed or cut
    NAMES_QUIC_SHORT,   // no long header: a packet under keys that only its ends have, padding, or
                        // no QUIC
    NAMES_QUIC_UNKNOWN, // a long header of a version that is not understood, or of version
                        // negotiation
    NAMES_QUIC_LONG,    // 0-RTT or Retry
    // A Handshake packet: the server has a whole ClientHello (RFC 9001, section 4.1.4).
    NAMES_QUIC_HANDSHAKE,
    NAMES_QUIC_INITIAL,
};

/// A packet's header. Places count from the start of the datagram.
struct names_quic_header {
    enum names_quic_kind kind;
    uint32_t version;         // with UNKNOWN, LONG and INITIAL
    uint32_t start;           // where the packet begins
    uint32_t connection;      // where the destination's connection id is; with LONG and INITIAL
    uint8_t connection_bytes; // of it
    uint32_t number;          // where the packet's number is; with INITIAL
    // End of the packet, where the next one of the datagram may begin. For BAD, SHORT, UNKNOWN and
    // Retry, the datagram's end.
    uint32_t end;
};

/// The keys of a client's Initial packets. Kept as long as its hello is not whole.
struct names_quic_keys {
    uint32_t version; // 0 = no keys yet
    uint8_t key[16];
    uint8_t iv[12];
    uint8_t header[16]; // of header protection
    uint64_t next;      // number expected next: one more than the highest of those opened
};

/// A key of HMAC with SHA-256, ready to be used.
struct names_quic_mac {
    SHA256_CTX inner;
    SHA256_CTX outer;
};

/// Ciphers and buffers, made once for all packets: nothing allocates afterwards. One a thread.
struct names_quic_opener {
    struct names_quic_mac salt_1;
    struct names_quic_mac salt_2;
    struct names_quic_mac salt_29;
    EVP_CIPHER_CTX *header;  // AES-128-ECB
    EVP_CIPHER_CTX *payload; // AES-128-GCM
};

/// Kind of a frame.
enum names_quic_frame_kind {
    NAMES_QUIC_FRAME_BAD, // malformed, cut, or not allowed in an Initial packet (RFC 9000, section
                          // 12.4): nothing behind it can be read
    NAMES_QUIC_FRAME_PADDING, // as many as stand there side by side
    NAMES_QUIC_FRAME_PING,
    NAMES_QUIC_FRAME_ACK,
    NAMES_QUIC_FRAME_CRYPTO,
    NAMES_QUIC_FRAME_CLOSE,
};

/// A frame. Places count from the start of the plaintext.
struct names_quic_frame {
    enum names_quic_frame_kind kind;
    uint32_t next;       // where the next one begins; of BAD the plaintext's end
    uint32_t data;       // of CRYPTO: where its bytes are
    uint32_t data_bytes; // of CRYPTO
    uint64_t offset;     // of CRYPTO: where they belong; offset + data_bytes < 2^62
};

/// Makes an opener. Returns 0, or -ENOMEM with nothing to free.
int names_quic_make(struct names_quic_opener *opener);

/// Frees an opener's contexts.
void names_quic_free(struct names_quic_opener *opener);

/// Whether packets of a version can be read.
bool names_quic_is_understood(uint32_t version);

/// Reads the header of the packet at a place of a datagram. Its fixed bit may be 0 (RFC 9287).
/// - at: where the packet begins, at most length; an empty rest is SHORT.
struct names_quic_header names_quic_header(const uint8_t *datagram, uint32_t length, uint32_t at);

/// Derives the keys of a client's Initial packets from the connection id that its first one is sent
/// to.
/// - header: of an Initial of this datagram.
struct names_quic_keys names_quic_derive(const struct names_quic_opener *opener,
                                         const uint8_t *datagram,
                                         const struct names_quic_header *header);

/// Opens an Initial packet.
/// - keys: of its version; next goes on if it could be opened, else nothing changes.
/// - datagram, header: of an Initial; the datagram is not written to.
/// - plain: gets its frames.
/// - Returns the bytes in plain; 0 = it can't be opened with these keys, or has no frame, or does
///   not fit.
uint32_t names_quic_open(const struct names_quic_opener *opener, struct names_quic_keys *keys,
                         const uint8_t *datagram, const struct names_quic_header *header,
                         uint8_t plain[static NAMES_HELLO_BYTES_MAX]);

/// Reads the frame at a place of a plaintext.
/// - at: where it begins, below length.
struct names_quic_frame names_quic_frame(const uint8_t *plain, uint32_t length, uint32_t at);

#endif
