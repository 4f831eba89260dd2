// SPDX-License-Identifier: GPL-2.0-or-later
// EVP's functions for SHA-256 allocate at each use. OpenSSL's low-level functions (SHA256_Init)
// don't, but are deprecated since OpenSSL 3.0.
#define OPENSSL_API_COMPAT 0x10101000L
#include "names/quic.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "names/cursor.h"

/// Version numbers of QUIC drafts that servers still accept. Drafts 33 and 34 differ from version 1
/// only in the version number.
static const uint32_t DRAFT_29 = 0xff00001d, DRAFT_32 = 0xff000020;
static const uint32_t DRAFT_33 = 0xff000021, DRAFT_34 = 0xff000022;
/// Salts for the Initial secret of each version (RFC 9001, section 5.2; RFC 9369, section 3.3.1;
/// draft-ietf-quic-tls-29, section 5.2).
static const uint8_t SALT_1[20] = {
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17,
    0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
};
static const uint8_t SALT_2[20] = {
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93,
    0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
};
static const uint8_t SALT_29[20] = {
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97,
    0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43, 0x90, 0xa8, 0x99,
};
/// Prefix of HKDF labels (RFC 8446, section 7.1).
static const char LABEL[] = "tls13 ";
/// Label of the client's Initial secret (RFC 9001, section 5.2).
static const char LABEL_CLIENT[] = "client in";
/// Labels of the client's key, IV and header protection key: LABELS_2 for version 2, LABELS_1 for
/// the other versions.
static const char *const LABELS_1[] = {"quic key", "quic iv", "quic hp"};
static const char *const LABELS_2[] = {"quicv2 key", "quicv2 iv", "quicv2 hp"};

enum {
    SECRET_BYTES = 32,
    HASH_BLOCK_BYTES = 64, // block size of SHA-256 in bytes

    // First byte of a long header: the form bit, and the packet type with the numbers of version 1
    // (RFC 9000, section 17.2).
    LONG = 0x80,
    TYPE_SHIFT = 4,
    TYPE_MASK = 3,
    TYPE_INITIAL = 0,
    TYPE_HANDSHAKE = 2,
    TYPE_RETRY = 3,
    // Bits of a long header's first byte that header protection hides (RFC 9001, section 5.4.1).
    HIDDEN = 0x0f,
    // Bits of a packet's first byte that contain the length of the packet number minus one.
    NUMBER_MASK = 3,
    // Offset of header protection's sample from the start of the packet number, in bytes (RFC 9001,
    // section 5.4.2).
    SAMPLE_OFFSET = 4,
    // Length of header protection's sample in bytes.
    SAMPLE_BYTES = 16,
    TAG_BYTES = 16, // size of the authentication tag at the end of the ciphertext

    // Types of frames (RFC 9000, section 19).
    FRAME_PADDING = 0x00,
    FRAME_PING = 0x01,
    FRAME_ACK = 0x02,
    FRAME_ACK_ECN = 0x03,
    FRAME_CRYPTO = 0x06,
    FRAME_CLOSE = 0x1c,
};

/// Maximum of a variable-length integer, plus one (RFC 9000, section 16).
static const uint64_t NUMBERS = 1ULL << 62;

/// Returns the state of HMAC (RFC 2104) for a key.
/// - length: length of the key, at most HASH_BLOCK_BYTES.
static struct names_quic_mac make_mac(const uint8_t *key, uint32_t length) {
    uint8_t inner[HASH_BLOCK_BYTES], outer[HASH_BLOCK_BYTES];
    struct names_quic_mac mac;

    for (uint32_t i = 0; i < HASH_BLOCK_BYTES; i++) {
        inner[i] = (i < length ? key[i] : 0) ^ 0x36;
        outer[i] = (i < length ? key[i] : 0) ^ 0x5c;
    }
    SHA256_Init(&mac.inner);
    SHA256_Update(&mac.inner, inner, sizeof inner);
    SHA256_Init(&mac.outer);
    SHA256_Update(&mac.outer, outer, sizeof outer);
    return mac;
}

int names_quic_make(struct names_quic_opener *opener) {
    *opener = (struct names_quic_opener){
        .salt_1 = make_mac(SALT_1, sizeof SALT_1),
        .salt_2 = make_mac(SALT_2, sizeof SALT_2),
        .salt_29 = make_mac(SALT_29, sizeof SALT_29),
        .header = EVP_CIPHER_CTX_new(),
        .payload = EVP_CIPHER_CTX_new(),
    };
    if (!opener->header || !opener->payload ||
        !EVP_EncryptInit_ex(opener->header, EVP_aes_128_ecb(), NULL, NULL, NULL) ||
        !EVP_CIPHER_CTX_set_padding(opener->header, 0) ||
        !EVP_DecryptInit_ex(opener->payload, EVP_aes_128_gcm(), NULL, NULL, NULL)) {
        names_quic_free(opener);
        return -ENOMEM;
    }
    return 0;
}

void names_quic_free(struct names_quic_opener *opener) {
    EVP_CIPHER_CTX_free(opener->header);
    EVP_CIPHER_CTX_free(opener->payload);
    *opener = (struct names_quic_opener){0};
}

/// Returns true if a version is a draft that uses the salt of draft 29.
static bool has_salt_29(uint32_t version) { return version >= DRAFT_29 && version <= DRAFT_32; }

bool names_quic_is_understood(uint32_t version) {
    return version == NAMES_QUIC_VERSION_1 || version == NAMES_QUIC_VERSION_2 ||
           has_salt_29(version) || version == DRAFT_33 || version == DRAFT_34;
}

/// Returns true if at most two adjacent bytes of the first five differ from a long header of a
/// version.
/// - seen: first five bytes of the datagram as a big-endian number; of the first byte, only the
///   form bit is kept.
static bool is_near_version(uint64_t seen, uint32_t version) {
    const uint64_t differing = seen ^ (version | (uint64_t)LONG << 32);

    for (unsigned place = 0; place < 4; place++)
        if ((differing & ~(UINT64_C(0xffff) << (8 * place))) == 0)
            return true;
    return false;
}

bool names_quic_is_near(const uint8_t *datagram, uint32_t length) {
    uint64_t seen = 0;

    if (length < 5)
        return false;
    for (int i = 0; i < 5; i++)
        seen = seen << 8 | datagram[i];
    seen &= (uint64_t)LONG << 32 | UINT32_MAX;
    for (uint32_t version = DRAFT_29; version <= DRAFT_34; version++)
        if (is_near_version(seen, version))
            return true;
    return is_near_version(seen, NAMES_QUIC_VERSION_1) ||
           is_near_version(seen, NAMES_QUIC_VERSION_2);
}

/// Consumes and returns a variable-length integer (RFC 9000, section 16). Returns 0 if the integer
/// is cut.
static uint64_t consume_number(struct names_cursor *cursor) {
    const uint32_t first = names_cursor_number(cursor, 1);
    const uint32_t more = (1U << (first >> 6)) - 1;
    const uint64_t upper = names_cursor_number(cursor, more == 7 ? 3 : 0);
    const uint64_t lower = names_cursor_number(cursor, more == 7 ? 4 : more);
    const uint64_t start = first & 0x3f;

    if (cursor->cut)
        return 0;
    return more == 7 ? start << 56 | upper << 32 | lower : start << (8 * more) | lower;
}

/// Returns the packet type of a long header, with the numbers of version 1. The numbers of version
/// 2 are higher by one, modulo 4 (RFC 9369, section 3.2).
static uint8_t type_of(uint8_t first, uint32_t version) {
    const uint8_t type = first >> TYPE_SHIFT & TYPE_MASK;

    return version == NAMES_QUIC_VERSION_2 ? (uint8_t)(type - 1) & TYPE_MASK : type;
}

/// Parses a long header of a supported version after its version field. Returns false if the header
/// is malformed or cut.
/// - left: in/out: rest of the datagram.
/// - header: in/out: before the call, its field version must be set, and its field end must contain
///   the datagram's end.
static bool parse_long(uint8_t first, struct names_cursor *left, struct names_quic_header *header) {
    const uint8_t type = type_of(first, header->version);
    struct names_cursor destination, source;
    uint64_t length;

    destination = names_cursor_vector(left, 1);
    header->connection = header->end - left->length - destination.length;
    source = names_cursor_vector(left, 1);
    if (left->cut || destination.length > NAMES_QUIC_CONNECTION_BYTES_MAX ||
        source.length > NAMES_QUIC_CONNECTION_BYTES_MAX)
        return false;
    header->connection_bytes = (uint8_t)destination.length;
    header->kind = type == TYPE_HANDSHAKE ? NAMES_QUIC_HANDSHAKE : NAMES_QUIC_LONG;
    if (type == TYPE_RETRY)
        return true;
    if (type == TYPE_INITIAL) {
        const uint64_t token = consume_number(left);

        if (token > left->length)
            return false;
        names_cursor_part(left, (uint32_t)token);
        header->kind = NAMES_QUIC_INITIAL;
    }
    length = consume_number(left);
    header->number = header->end - left->length;
    if (left->cut || length > left->length)
        return false;
    header->end = header->number + (uint32_t)length;
    return true;
}

struct names_quic_header names_quic_header(const uint8_t *datagram, uint32_t length, uint32_t at) {
    const struct names_quic_header nothing = {.kind = NAMES_QUIC_SHORT, .start = at, .end = length};
    struct names_cursor left = names_cursor_begin(datagram, length);
    struct names_quic_header header = nothing;
    uint8_t first;

    names_cursor_part(&left, at);
    first = (uint8_t)names_cursor_number(&left, 1);
    if (!(first & LONG))
        return nothing;
    header.version = names_cursor_number(&left, 4);
    if (!left.cut && !names_quic_is_understood(header.version)) {
        header.kind = NAMES_QUIC_UNKNOWN;
        return header;
    }
    if (left.cut || !parse_long(first, &left, &header)) {
        header = nothing;
        header.kind = NAMES_QUIC_BAD;
    }
    return header;
}

/// Computes HMAC with SHA-256 (RFC 2104) of a text.
/// - code: out: authentication code.
static void sign(const struct names_quic_mac *mac, const uint8_t *text, uint32_t length,
                 uint8_t code[static SECRET_BYTES]) {
    struct names_quic_mac used = *mac;

    SHA256_Update(&used.inner, text, length);
    SHA256_Final(code, &used.inner);
    SHA256_Update(&used.outer, code, SECRET_BYTES);
    SHA256_Final(code, &used.outer);
}

/// Derives bytes from a secret by HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
/// - length: at most SECRET_BYTES, so that one step is enough (RFC 5869, section 2.3).
static void expand(const struct names_quic_mac *secret, const char *label, uint8_t *bytes,
                   uint32_t length) {
    const uint8_t label_length = (uint8_t)(strlen(LABEL) + strlen(label));
    uint8_t info[HASH_BLOCK_BYTES] = {0, (uint8_t)length, label_length}, code[SECRET_BYTES];
    char *end = stpcpy(stpcpy((char *)info + 3, LABEL), label);

    end[1] = 1; // number of the step, after an empty context
    sign(secret, info, 3U + label_length + 2, code);
    memcpy(bytes, code, length);
}

struct names_quic_keys names_quic_derive(const struct names_quic_opener *opener,
                                         const uint8_t *datagram,
                                         const struct names_quic_header *header) {
    const bool is_2 = header->version == NAMES_QUIC_VERSION_2;
    const char *const *labels = is_2 ? LABELS_2 : LABELS_1;
    const struct names_quic_mac *salt_1 =
        has_salt_29(header->version) ? &opener->salt_29 : &opener->salt_1;
    struct names_quic_keys keys = {.version = header->version};
    struct names_quic_mac initial, client;
    uint8_t secret[SECRET_BYTES];

    sign(is_2 ? &opener->salt_2 : salt_1, datagram + header->connection, header->connection_bytes,
         secret);
    initial = make_mac(secret, sizeof secret);
    expand(&initial, LABEL_CLIENT, secret, sizeof secret);
    client = make_mac(secret, sizeof secret);
    expand(&client, labels[0], keys.key, sizeof keys.key);
    expand(&client, labels[1], keys.iv, sizeof keys.iv);
    expand(&client, labels[2], keys.header, sizeof keys.header);
    return keys;
}

/// Returns the full packet number for the lowest bytes that were sent: the number with these bytes
/// that is nearest to the next expected number (RFC 9000, section A.3).
/// - sent: sent bytes of the packet number, as a number.
/// - bytes: number of sent bytes, 1 to 4.
static uint64_t full_number(uint64_t expected, uint64_t sent, uint32_t bytes) {
    const uint64_t window = 1ULL << (8 * bytes);
    const uint64_t half = window / 2;
    const uint64_t number = (expected & ~(window - 1)) | sent;

    if (number + half <= expected && number < NUMBERS - window)
        return number + window;
    if (number > expected + half && number >= window)
        return number - window;
    return number;
}

/// Removes the header protection of an Initial packet (RFC 9001, section 5.4.1).
/// - packet: in/out: packet from its first byte on.
/// - place: offset of the packet number in `packet`.
/// - sent: out: sent bytes of the packet number, as a number.
/// - Returns the length of the sent packet number in bytes; 0 if the packet is too short for a
///   sample.
static uint32_t unprotect(const struct names_quic_opener *opener,
                          const struct names_quic_keys *keys, uint8_t *packet, uint32_t length,
                          uint32_t place, uint64_t *sent) {
    uint8_t mask[SAMPLE_BYTES];
    uint32_t bytes;
    int written;

    if (length - place < SAMPLE_OFFSET + SAMPLE_BYTES ||
        !EVP_EncryptInit_ex(opener->header, NULL, NULL, keys->header, NULL) ||
        !EVP_EncryptUpdate(opener->header, mask, &written, packet + place + SAMPLE_OFFSET,
                           SAMPLE_BYTES))
        return 0;
    packet[0] ^= mask[0] & HIDDEN;
    bytes = (packet[0] & NUMBER_MASK) + 1U;
    *sent = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        packet[place + i] ^= mask[1 + i];
        *sent = *sent << 8 | packet[place + i];
    }
    return bytes;
}

/// Decrypts a packet in place, after its header protection was removed (RFC 9001, section 5.3).
/// - head: length of the header in bytes, including the packet number. At least TAG_BYTES follow.
/// - number: full packet number.
/// - Returns the number of plaintext bytes, which are moved to the packet's start; 0 if the packet
///   can't be decrypted.
static uint32_t decrypt(const struct names_quic_opener *opener, const struct names_quic_keys *keys,
                        uint8_t *packet, uint32_t length, uint32_t head, uint64_t number) {
    const int bytes = (int)(length - head - TAG_BYTES);
    uint8_t nonce[sizeof keys->iv];
    int written;

    memcpy(nonce, keys->iv, sizeof nonce);
    for (uint32_t i = 0; i < sizeof number; i++)
        nonce[sizeof nonce - 1 - i] ^= (uint8_t)(number >> (8 * i));
    if (!EVP_DecryptInit_ex(opener->payload, NULL, NULL, keys->key, nonce) ||
        !EVP_DecryptUpdate(opener->payload, NULL, &written, packet, (int)head) ||
        (bytes > 0 &&
         !EVP_DecryptUpdate(opener->payload, packet + head, &written, packet + head, bytes)) ||
        !EVP_CIPHER_CTX_ctrl(opener->payload, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES,
                             packet + head + bytes) ||
        EVP_DecryptFinal_ex(opener->payload, packet + head + bytes, &written) <= 0)
        return 0;
    memmove(packet, packet + head, (size_t)bytes);
    return (uint32_t)bytes;
}

uint32_t names_quic_open(const struct names_quic_opener *opener, struct names_quic_keys *keys,
                         const uint8_t *datagram, const struct names_quic_header *header,
                         uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    const uint32_t place = header->number - header->start;
    const uint32_t length = header->end - header->start;
    uint32_t number_bytes, bytes;
    uint64_t sent, number;

    if (length > NAMES_HELLO_BYTES_MAX)
        return 0;
    memcpy(plain, datagram + header->start, length);
    number_bytes = unprotect(opener, keys, plain, length, place, &sent);
    if (number_bytes == 0 || keys->version != header->version)
        return 0;
    number = full_number(keys->next, sent, number_bytes);
    bytes = decrypt(opener, keys, plain, length, place + number_bytes, number);
    if (bytes > 0 && number >= keys->next)
        keys->next = number + 1;
    return bytes;
}

/// Consumes the part of an ACK frame after its type (RFC 9000, section 19.3).
/// - has_ecn: true if the frame contains ECN counts.
static void consume_ack(struct names_cursor *left, bool has_ecn) {
    uint64_t ranges;

    consume_number(left);
    consume_number(left);
    ranges = consume_number(left);
    consume_number(left);
    for (; ranges > 0 && !left->cut; ranges--) {
        consume_number(left);
        consume_number(left);
    }
    if (has_ecn) {
        consume_number(left);
        consume_number(left);
        consume_number(left);
    }
}

/// Consumes a number of bytes, and returns a cursor over them. If too few bytes are left, both
/// cursors are cut.
static struct names_cursor consume_part(struct names_cursor *left, uint64_t bytes) {
    return names_cursor_part(left, bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX);
}

/// Parses a frame of any type except PADDING and PING. left->cut is set if the frame is cut or its
/// type is not allowed.
/// - end: length of the plaintext.
static void parse_frame(uint64_t type, uint32_t end, struct names_cursor *left,
                        struct names_quic_frame *frame) {
    uint64_t bytes;

    switch (type) {
    case FRAME_ACK:
    case FRAME_ACK_ECN:
        consume_ack(left, type == FRAME_ACK_ECN);
        frame->kind = NAMES_QUIC_FRAME_ACK;
        break;
    case FRAME_CRYPTO:
        frame->offset = consume_number(left);
        bytes = consume_number(left);
        frame->data = end - left->length;
        frame->data_bytes = consume_part(left, bytes).length;
        frame->kind = NAMES_QUIC_FRAME_CRYPTO;
        break;
    case FRAME_CLOSE:
        consume_number(left);
        consume_number(left);
        bytes = consume_number(left);
        consume_part(left, bytes);
        frame->kind = NAMES_QUIC_FRAME_CLOSE;
        break;
    default:
        *left = (struct names_cursor){.cut = true};
    }
}

struct names_quic_frame names_quic_frame(const uint8_t *plain, uint32_t length, uint32_t at) {
    struct names_cursor left = names_cursor_begin(plain, length);
    struct names_quic_frame frame = {0};
    uint64_t type;

    names_cursor_part(&left, at);
    type = consume_number(&left);
    if (type == FRAME_PADDING && !left.cut) {
        uint32_t zeros = 0;

        while (zeros < left.length && left.bytes[zeros] == 0)
            zeros++;
        names_cursor_part(&left, zeros);
        frame.kind = NAMES_QUIC_FRAME_PADDING;
    } else if (type == FRAME_PING) {
        frame.kind = NAMES_QUIC_FRAME_PING;
    } else {
        parse_frame(type, length, &left, &frame);
    }
    if (left.cut || frame.offset + frame.data_bytes >= NUMBERS)
        frame = (struct names_quic_frame){.next = length};
    else
        frame.next = length - left.length;
    return frame;
}
