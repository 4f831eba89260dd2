// SPDX-License-Identifier: GPL-2.0-or-later
#include "server.h"

#include <string.h>

#include "names/client.h"
#include "names/dns.h"
#include "names/http.h"

struct server server_make(uint8_t properties) {
    return (struct server){
        .properties = properties,
        .kind = (enum content_kind)((properties & 3) % CONTENT_COUNT),
    };
}

/// Stores the data of a segment. Bytes before `next` have been read, and are not replaced.
/// - sequence: sequence number of the first data byte.
static void take(struct server *server, const struct sent *sent, uint32_t sequence) {
    for (uint32_t i = 0; i < sent->length; i++) {
        const uint32_t offset = sequence + i - (server->base + 1);

        if (offset < server->next || offset >= SERVER_BYTES)
            continue;
        if (!server->has[offset] || (server->properties & SERVER_LAST_WINS))
            server->bytes[offset] = sent->data[i];
        server->has[offset] = true;
    }
    while (server->next < SERVER_BYTES && server->has[server->next])
        server->next++;
}

/// Fills in a segment that acknowledges the received bytes. Returns true: the server answers.
static bool say(const struct server *server, uint8_t flags, struct sent *answer) {
    *answer = (struct sent){
        .flags = flags,
        .sequence = flags & SERVER_SYN ? server->own : server->own + 1,
        .acknowledged = server->base + 1 + server->next,
    };
    return true;
}

/// Begins a connection.
/// - base, own: sequence numbers of the client's and of the server's SYN.
static void begin(struct server *server, uint32_t base, uint32_t own) {
    server->state = SERVER_ASKED;
    server->base = base;
    server->own = own;
    server->next = 0;
    memset(server->has, 0, sizeof server->has);
}

/// Answers a SYN for a connection that has begun: with a SYN-ACK if the handshake is not complete
/// and the SYN is the same or replaces the earlier one, otherwise with an ACK. Returns true.
static bool take_syn(struct server *server, const struct sent *sent, uint32_t own,
                     struct sent *answer) {
    if (server->state == SERVER_ASKED && sent->sequence == server->base)
        return say(server, SERVER_SYN | SERVER_ACK, answer);
    if (server->state != SERVER_ASKED || !(server->properties & SERVER_COOKIES) ||
        (sent->flags & SERVER_ACK))
        return say(server, SERVER_ACK, answer);
    begin(server, sent->sequence, own);
    return say(server, SERVER_SYN | SERVER_ACK, answer);
}

bool server_receive(struct server *server, const struct sent *sent, uint32_t own,
                    struct sent *answer) {
    const uint8_t all = SERVER_SYN | SERVER_ACK | SERVER_RST | SERVER_FIN;

    if (server->state == SERVER_LISTENS) {
        if ((sent->flags & all) != SERVER_SYN)
            return false;
        begin(server, sent->sequence, own);
        if (server->properties & SERVER_FAST_OPEN)
            take(server, sent, sent->sequence + 1);
        return say(server, SERVER_SYN | SERVER_ACK, answer);
    }
    if (sent->flags & SERVER_RST) {
        if (sent->sequence == server->base + 1 + server->next)
            server->state = SERVER_LISTENS;
        return false;
    }
    if (sent->flags & SERVER_SYN)
        return take_syn(server, sent, own, answer);
    if (!(sent->flags & SERVER_ACK) || sent->acknowledged != server->own + 1)
        return false;
    server->state = SERVER_OPEN;
    take(server, sent, sent->sequence);
    if ((sent->flags & SERVER_FIN) &&
        sent->sequence + sent->length == server->base + 1 + server->next)
        server->state = SERVER_LISTENS;
    return sent->length > 0 && say(server, SERVER_ACK, answer);
}

static bool is_denied(const struct names *names) {
    return names->state == NAMES_KNOWN && names->host_length == strlen(CONTENT_DENIED) &&
           memcmp(names->host, CONTENT_DENIED, names->host_length) == 0;
}

/// Reads the first HTTP request or DNS query in bytes.
/// - names: out: names in the request or query.
/// - Returns its number of bytes; 0 if there is none.
static uint64_t read_one(enum content_kind kind, const uint8_t *bytes, uint32_t length,
                         struct names *names) {
    struct names_progress progress = {0};
    struct names_body body;
    uint32_t taken;

    if (kind == CONTENT_DNS) {
        names_dns_framed(bytes, length, names, &taken);
        return taken;
    }
    if (names_http_begins(bytes, length, &progress) != NAMES_KNOWN ||
        names_http_parse(bytes, length, false, &progress, &body, names) != NAMES_KNOWN ||
        names->protocol != NAMES_HTTP)
        return 0;
    return body.header_bytes + body.length;
}

bool server_is_asked_for_denied(const struct server *server) {
    static uint8_t scratch[NAMES_HELLO_BYTES_MAX];
    struct names_progress progress = {0};
    struct names names;
    uint64_t taken;

    if (server->kind == CONTENT_TLS) {
        names_client_parse(server->bytes, server->next, false, scratch, &progress, &names);
        return is_denied(&names);
    }
    for (uint64_t at = 0; at < server->next; at += taken) {
        taken = read_one(server->kind, server->bytes + at, server->next - (uint32_t)at, &names);
        if (taken == 0)
            return false;
        if (is_denied(&names))
            return true;
    }
    return false;
}
