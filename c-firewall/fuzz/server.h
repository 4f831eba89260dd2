// SPDX-License-Identifier: GPL-2.0-or-later
// Model of a TCP server like Linux's, reduced to the rules that decide which bytes the server
// reads.
#ifndef SERVER_H
#define SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "content.h"

enum {
    SERVER_FIN = 1,
    SERVER_SYN = 2,
    SERVER_RST = 4,
    SERVER_ACK = 16,
    SERVER_URG = 32,
    SERVER_BYTES = 2 * CONTENT_BYTES,
};

/// Flags in the byte that describes a server. The byte's two lowest bits are the kind of content.
enum server_property {
    // If several segments have bytes for the same sequence number, the bytes that arrived last are
    // kept; without the flag, those that arrived first.
    SERVER_LAST_WINS = 4,
    // A SYN with another sequence number restarts a connection whose handshake is not complete.
    SERVER_COOKIES = 8,
    SERVER_FAST_OPEN = 16,
};

enum server_state { SERVER_LISTENS, SERVER_ASKED, SERVER_OPEN };

/// Server's end of the connections between one pair of ports.
struct server {
    enum server_state state;
    uint8_t properties;
    enum content_kind kind;
    uint32_t base; // sequence number of the client's SYN
    uint32_t own;  // sequence number of the server's SYN
    uint32_t next; // number of received bytes without a gap
    uint8_t bytes[SERVER_BYTES];
    bool has[SERVER_BYTES];
};

/// Contents of a TCP segment.
struct sent {
    uint8_t flags;
    uint32_t sequence;
    uint32_t acknowledged;
    const uint8_t *data;
    uint32_t length;
};

/// Returns a model of a TCP server that listens.
/// - properties: flags of enum server_property; the two lowest bits are the kind of content.
struct server server_make(uint8_t properties);

/// Receives a segment. Returns true if the server answers, with the answer in *answer.
/// - own: sequence number of the server's SYN, if the segment begins a connection.
bool server_receive(struct server *server, const struct sent *sent, uint32_t own,
                    struct sent *answer);

/// Returns true if the server has received a request for the denied name.
bool server_is_asked_for_denied(const struct server *server);

#endif
