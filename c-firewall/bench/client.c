// SPDX-License-Identifier: GPL-2.0-or-later
#include "client.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "names/quic.h"

static const char name[] = "www.shop.example";

enum {
    // Layout of an Initial packet in bytes: its size, the size of its header, the offset of the
    // packet number, and the size of the authentication tag at its end.
    INITIAL_BYTES = 1200,
    INITIAL_HEAD = 22,
    INITIAL_NUMBER = 18,
    TAG_BYTES = 16,
    FIELDS = 64, // number of header fields in an HTTP request
};

void client_put(struct client_bytes *to, const void *bytes, size_t count) {
    memcpy(&to->at[to->count], bytes, count);
    to->count += count;
}

void client_put_number(struct client_bytes *to, size_t bytes, size_t number) {
    while (bytes-- > 0)
        to->at[to->count++] = (uint8_t)(number >> 8 * bytes);
}

static void put_zeros(struct client_bytes *to, size_t count) {
    memset(&to->at[to->count], 0, count);
    to->count += count;
}

/// Appends the length of a part, as a big-endian number of length_bytes bytes, and then the part.
static void put_part(struct client_bytes *to, size_t length_bytes,
                     const struct client_bytes *part) {
    client_put_number(to, length_bytes, part->count);
    client_put(to, part->at, part->count);
}

static void put_extension(struct client_bytes *to, size_t kind, const void *value, size_t count) {
    client_put_number(to, 2, kind);
    client_put_number(to, 2, count);
    client_put(to, value, count);
}

struct client_bytes client_hello(size_t share_bytes) {
    struct client_bytes extensions = {0}, body = {0}, message = {0};
    uint8_t fill[CLIENT_BYTES_MAX];

    memset(fill, 'k', sizeof fill);
    client_put_number(&extensions, 2, 0);
    client_put_number(&extensions, 2, sizeof name - 1 + 5);
    client_put_number(&extensions, 2, sizeof name - 1 + 3);
    client_put_number(&extensions, 1, 0);
    client_put_number(&extensions, 2, sizeof name - 1);
    client_put(&extensions, name, sizeof name - 1);
    put_extension(&extensions, 10, "\x00\x06\x11\xec\x00\x1d\x00\x17", 8);
    put_extension(&extensions, 13, fill, 18);
    put_extension(&extensions, 16, "\x00\x0c\x02h2\x08http/1.1", 14);
    put_extension(&extensions, 43, "\x04\x03\x04\x03\x03", 5);
    put_extension(&extensions, 51, fill, share_bytes);
    client_put_number(&body, 2, 0x0303);
    client_put(&body, fill, 32);
    client_put_number(&body, 1, 32);
    client_put(&body, fill, 32);
    client_put_number(&body, 2, 32);
    client_put(&body, fill, 32);
    client_put_number(&body, 2, 0x0100);
    put_part(&body, 2, &extensions);
    client_put_number(&message, 1, 1);
    put_part(&message, 3, &body);
    return message;
}

struct client_bytes client_record(const struct client_bytes *handshake) {
    struct client_bytes record = {3, {22, 3, 1}};

    put_part(&record, 2, handshake);
    return record;
}

/// Encrypts the frames of an Initial packet, and protects its header (RFC 9001 section 5).
static void seal(uint8_t packet[INITIAL_BYTES], const struct names_quic_keys *keys) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t *frames = &packet[INITIAL_HEAD], mask[TAG_BYTES];
    const int bytes = INITIAL_BYTES - INITIAL_HEAD - TAG_BYTES;
    int written;
    bool made = context;

    made &= EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), NULL, keys->key, keys->iv) == 1;
    made &= EVP_EncryptUpdate(context, NULL, &written, packet, INITIAL_HEAD) == 1;
    made &= EVP_EncryptUpdate(context, frames, &written, frames, bytes) == 1;
    made &= EVP_EncryptFinal_ex(context, frames + bytes, &written) == 1;
    made &= EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, frames + bytes) == 1;
    made &= EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), NULL, keys->header, NULL) == 1;
    made &= EVP_EncryptUpdate(context, mask, &written, frames, TAG_BYTES) == 1;
    if (!made)
        abort();
    EVP_CIPHER_CTX_free(context);
    packet[0] ^= mask[0] & 0x0f;
    for (size_t i = 0; i < INITIAL_HEAD - INITIAL_NUMBER; i++)
        packet[INITIAL_NUMBER + i] ^= mask[1 + i];
}

struct client_bytes client_initial(const struct client_bytes *handshake) {
    struct client_bytes packet = {6, {0xc3, 0, 0, 0, 1, 8}};
    struct names_quic_opener opener;
    struct names_quic_header header;
    struct names_quic_keys keys;

    client_put(&packet, "benchmrk\0\0", 10);
    client_put_number(&packet, 2, (INITIAL_BYTES - INITIAL_NUMBER) | 0x4000);
    put_zeros(&packet, INITIAL_HEAD - INITIAL_NUMBER);
    client_put_number(&packet, 2, 0x0600);
    client_put_number(&packet, 2, handshake->count | 0x4000);
    client_put(&packet, handshake->at, handshake->count);
    put_zeros(&packet, INITIAL_BYTES - packet.count);
    if (names_quic_make(&opener) < 0)
        abort();
    header = names_quic_header(packet.at, INITIAL_BYTES, 0);
    keys = names_quic_derive(&opener, packet.at, &header);
    names_quic_free(&opener);
    seal(packet.at, &keys);
    return packet;
}

struct client_bytes client_request(void) {
    static const char first[] = "GET / HTTP/1.1\r\n", field[] = "Accept: text/html\r\n";
    struct client_bytes request = {0};

    client_put(&request, first, sizeof first - 1);
    for (int i = 1; i < FIELDS; i++)
        client_put(&request, field, sizeof field - 1);
    client_put(&request, "Host: ", 6);
    client_put(&request, name, sizeof name - 1);
    client_put(&request, "\r\n\r\n", 4);
    return request;
}

struct client_bytes client_query(void) {
    struct client_bytes message = {12, {0x12, 0x34, 1, 0, 0, 1}};

    client_put(&message,
               "\x03www\x04shop\x07"
               "example",
               17);
    client_put(&message, "\0\0\1\0\1", 5);
    return message;
}
