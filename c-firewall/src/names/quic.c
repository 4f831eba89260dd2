// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/quic.h"

int names_quic_make(struct names_quic_opener *opener) {
    *opener = (struct names_quic_opener){0};
    return 0;
}

void names_quic_free(struct names_quic_opener *opener) { *opener = (struct names_quic_opener){0}; }

struct names_quic_header names_quic_header(const uint8_t *datagram, uint32_t length, uint32_t at) {
    (void)datagram;
    return (struct names_quic_header){.kind = NAMES_QUIC_SHORT, .start = at, .end = length};
}

struct names_quic_keys names_quic_derive(const struct names_quic_opener *opener,
                                         const uint8_t *datagram,
                                         const struct names_quic_header *header) {
    (void)opener;
    (void)datagram;
    (void)header;
    return (struct names_quic_keys){0};
}

uint32_t names_quic_open(const struct names_quic_opener *opener, struct names_quic_keys *keys,
                         const uint8_t *datagram, const struct names_quic_header *header,
                         uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    (void)opener;
    (void)keys;
    (void)datagram;
    (void)header;
    (void)plain;
    return 0;
}

struct names_quic_frame names_quic_frame(const uint8_t *plain, uint32_t length, uint32_t at) {
    (void)plain;
    (void)at;
    return (struct names_quic_frame){.next = length};
}
