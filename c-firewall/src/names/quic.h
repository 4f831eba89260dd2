// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of QUIC Initial packets: headers, decryption (with keys that every observer can derive),
// and frames. Formats: RFC 9000, sections 16, 17.2, 19 and A.3; RFC 9001, sections 5.2 to 5.4; RFC
// 9369, section 3 (version 2).
#ifndef NAMES_QUIC_H
#define NAMES_QUIC_H

#include <openssl/sha.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "names/hello.h"

enum {
    // Version numbers of QUIC 1 and 2. Some drafts are supported, too (quic.c).
    NAMES_QUIC_VERSION_1 = 0x00000001,
    NAMES_QUIC_VERSION_2 = 0x6b3343cf,
    // Maximum length of a connection ID in bytes (RFC 9000, section 17.2).
    NAMES_QUIC_CONNECTION_BYTES_MAX = 20,
};

/// Kind of a QUIC packet in a datagram.
enum names_quic_kind {
    // Malformed or cut long header of a supported version, or a cut version field.
    NAMES_QUIC_BAD,
    // No long header: a packet with keys that only the two ends have, padding, or no QUIC.
    NAMES_QUIC_SHORT,
    NAMES_QUIC_UNKNOWN, // long header of an unsupported version, or of version negotiation
    NAMES_QUIC_LONG,    // 0-RTT or Retry packet
    // Handshake packet: the server has received a complete ClientHello (RFC 9001, section 4.1.4).
    NAMES_QUIC_HANDSHAKE,
    NAMES_QUIC_INITIAL,
};

/// Header of a QUIC packet. Offsets in bytes count from the start of the datagram.
struct names_quic_header {
    enum names_quic_kind kind;
    uint32_t version;    // QUIC version, for UNKNOWN, LONG, HANDSHAKE and INITIAL
    uint32_t start;      // offset of the first byte of the packet
    uint32_t connection; // offset of the destination connection ID, for LONG, HANDSHAKE and INITIAL
    uint8_t connection_bytes; // length of the destination connection ID
    uint32_t number;          // offset of the packet number, for INITIAL
    // Offset of the packet's end, where the datagram's next packet may begin. For BAD, SHORT,
    // UNKNOWN and Retry it is the datagram's end.
    uint32_t end;
};

/// Keys of a client's Initial packets. A connection stores them as long as it is followed.
struct names_quic_keys {
    uint32_t version; // QUIC version of the keys; 0 = no keys yet
    uint8_t key[16];
    uint8_t iv[12];
    uint8_t header[16]; // key of header protection
    // Next expected packet number: one more than the highest packet number that was decrypted.
    uint64_t next;
};

/// State of HMAC with SHA-256 after the first block, which contains the key.
struct names_quic_mac {
    SHA256_CTX inner;
    SHA256_CTX outer;
};

/// Contexts for key derivation and ciphers. Each thread creates them once for all packets, so that
/// nothing allocates later.
struct names_quic_opener {
    struct names_quic_mac salt_1;
    struct names_quic_mac salt_2;
    struct names_quic_mac salt_29;
    EVP_CIPHER_CTX *header;  // context for AES-128-ECB
    EVP_CIPHER_CTX *payload; // context for AES-128-GCM
};

/// Kind of a frame.
enum names_quic_frame_kind {
    // Malformed or cut frame, or a frame that is not allowed in an Initial packet (RFC 9000,
    // section 12.4). Frames after it can't be read.
    NAMES_QUIC_FRAME_BAD,
    NAMES_QUIC_FRAME_PADDING, // run of adjacent PADDING frames
    NAMES_QUIC_FRAME_PING,
    NAMES_QUIC_FRAME_ACK,
    NAMES_QUIC_FRAME_CRYPTO,
    NAMES_QUIC_FRAME_CLOSE,
};

/// Frame of an Initial packet. Offsets in bytes count from the start of the plaintext.
struct names_quic_frame {
    enum names_quic_frame_kind kind;
    uint32_t next;       // offset of the next frame; for BAD, the end of the plaintext
    uint32_t data;       // offset of the frame's data bytes, for CRYPTO
    uint32_t data_bytes; // number of the frame's data bytes, for CRYPTO
    // Offset of the frame's data in the handshake, for CRYPTO; offset + data_bytes < 2^62.
    uint64_t offset;
};

/// Creates a thread's contexts for key derivation and ciphers. Returns 0, or -ENOMEM with nothing
/// to free.
int names_quic_make(struct names_quic_opener *opener);

/// Frees a thread's contexts.
void names_quic_free(struct names_quic_opener *opener);

/// Returns true if packets of a QUIC version can be read.
bool names_quic_is_understood(uint32_t version);

/// Returns true if at most two adjacent bytes of a datagram's first bytes differ from a long header
/// of a supported version. A checksum that is written later can turn such a datagram into a packet
/// of QUIC.
bool names_quic_is_near(const uint8_t *datagram, uint32_t length);

/// Parses the header of a packet in a datagram. The header's fixed bit may be 0 (RFC 9287).
/// - at: offset of the packet, at most length; if it is length, the kind is SHORT.
struct names_quic_header names_quic_header(const uint8_t *datagram, uint32_t length, uint32_t at);

/// Derives the keys of a client's Initial packets from the destination connection ID of its first
/// Initial packet.
/// - header: contains the QUIC version, and the position of that connection ID in `datagram`.
struct names_quic_keys names_quic_derive(const struct names_quic_opener *opener,
                                         const uint8_t *datagram,
                                         const struct names_quic_header *header);

/// Decrypts an Initial packet.
/// - keys: in/out: keys of the packet's version. `next` changes only if the packet was decrypted.
/// - datagram, header: datagram that contains the Initial packet, and the packet's header; both
///   stay unchanged.
/// - plain: out: frames of the packet.
/// - Returns the number of bytes in plain; 0 if the packet can't be decrypted with these keys, has
///   no frame, or is too long.
uint32_t names_quic_open(const struct names_quic_opener *opener, struct names_quic_keys *keys,
                         const uint8_t *datagram, const struct names_quic_header *header,
                         uint8_t plain[static NAMES_HELLO_BYTES_MAX]);

/// Parses a frame of an Initial packet's plaintext.
/// - at: offset of the frame, less than length.
struct names_quic_frame names_quic_frame(const uint8_t *plain, uint32_t length, uint32_t at);

#endif
