// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/record.h"

#include <netinet/in.h>
#include <string.h>

#include "connection/ids.h"
#include "connection/lifetime.h"
#include "connection/retry.h"
#include "connection/stream.h"
#include "connection/table.h"

const enum connection_list handover_record_order[CONNECTION_LIST_COUNT] = {
    CONNECTION_KNOWN,    CONNECTION_DATAGRAMS, CONNECTION_SILENT,  CONNECTION_CLOSING,
    CONNECTION_SETTLING, CONNECTION_SHOWING,   CONNECTION_OPENING,
};

enum {
    IPV4_WORDS = 2, // number of words (64 bits each) in the key of an IPv4 connection
};

// Limit of packet numbers (RFC 9000, section 12.3): all packet numbers are smaller. The next
// expected number may be equal.
#define NUMBERS (UINT64_C(1) << 62)

// Limit of the offset of the next HTTP request or chunk in a stream: the offset is smaller, because
// a body's length has at most 18 decimal digits, and a chunk's size at most 15 hexadecimal digits.
#define NEXT (UINT64_C(1) << 61)

// Flags of a connection.
enum {
    CLIENT_LOW = 1 << 0,
    CONFIRMED = 1 << 1,
    CLOSED = 1 << 2,
    EVASION = 1 << 3,
    DNS = 1 << 4,
    PENDING = 1 << 5,
    PENDING_LOW = 1 << 6,
    LET_GO = 1 << 7,
    ECH = 1 << 8,
    AHEAD = 1 << 9,
    SYN_DATA = 1 << 10,
    MAY_RETRY = 1 << 11,
    MAY_SWITCH = 1 << 12,
    ACCEPTED = 1 << 13,
    CROSSED = 1 << 14,
    FLAGS = (1 << 15) - 1,
    // Flags that a UDP connection can't have.
    TCP_FLAGS = CONFIRMED | DNS | PENDING | PENDING_LOW | AHEAD | SYN_DATA | MAY_RETRY |
                MAY_SWITCH | CROSSED,
};

struct handover_reading handover_record_begin(const uint8_t *bytes, size_t length) {
    return (struct handover_reading){.at = bytes, .left = length, .age_ns = UINT64_MAX};
}

void handover_record_append_number(struct handover_record *record, uint64_t number,
                                   uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        record->bytes[record->length++] = (uint8_t)(number >> 8 * i);
}

static void append_part(struct handover_record *record, const uint8_t *bytes, size_t length) {
    memcpy(record->bytes + record->length, bytes, length);
    record->length += length;
}

static void append_key(struct handover_record *record, const struct connection_key *key) {
    const bool is_ipv4 = (key->words[0] >> 8 & 0xff) == 4;

    for (uint32_t i = 0; i < (is_ipv4 ? (uint32_t)IPV4_WORDS : CONNECTION_KEY_WORDS); i++)
        handover_record_append_number(record, key->words[i], 8);
}

static uint32_t flags_of(const struct connection *connection) {
    return (connection->client_low ? CLIENT_LOW : 0U) | (connection->confirmed ? CONFIRMED : 0U) |
           (connection->closed ? CLOSED : 0U) | (connection->evasion ? EVASION : 0U) |
           (connection->is_dns ? DNS : 0U) | (connection->pending ? PENDING : 0U) |
           (connection->pending_low ? PENDING_LOW : 0U) |
           (connection->stream.let_go ? LET_GO : 0U) | (connection->names.ech ? ECH : 0U) |
           (connection->stream.ahead ? AHEAD : 0U) | (connection->syn_data ? SYN_DATA : 0U) |
           (connection->may_retry ? MAY_RETRY : 0U) | (connection->may_switch ? MAY_SWITCH : 0U) |
           (connection->accepted ? ACCEPTED : 0U) | (connection->crossed ? CROSSED : 0U);
}

/// Appends the fields that only TCP or only UDP has.
static void append_protocol(struct handover_record *record, const struct connection *connection) {
    const struct names_quic_keys *keys = &connection->keys;

    if (!connection->is_udp) {
        handover_record_append_number(record, connection->begun, 4);
        handover_record_append_number(record, connection->server_begun, 4);
        handover_record_append_number(record, connection->server_end, 4);
        handover_record_append_number(record, connection->pending_base, 4);
        handover_record_append_number(record, connection->pending_client_interface, 4);
        handover_record_append_number(record, connection->pending_server_interface, 4);
        return;
    }
    handover_record_append_number(record, keys->version, 4);
    append_part(record, keys->key, sizeof keys->key);
    append_part(record, keys->iv, sizeof keys->iv);
    append_part(record, keys->header, sizeof keys->header);
    handover_record_append_number(record, keys->next, 8);
    handover_record_append_number(record, connection->id_bytes, 1);
    append_part(record, connection->id, sizeof connection->id);
}

/// Returns true if the names of a connection were read from an HTTP request.
static bool is_http(const struct names *names) {
    return names->state == NAMES_KNOWN && names->protocol == NAMES_HTTP;
}

static void append_names(struct handover_record *record, const struct names *names) {
    handover_record_append_number(record, names->state, 1);
    handover_record_append_number(record, names->protocol, 1);
    handover_record_append_number(record, names->host_length, 1);
    handover_record_append_number(record, names->alpn_length, 1);
    handover_record_append_number(record, names->method_length, 1);
    handover_record_append_number(record, names->version, 2);
    handover_record_append_number(record, names->dns_type, 2);
    append_part(record, names->host, names->host_length);
    append_part(record, names->alpn, names->alpn_length);
    append_part(record, names->method, names->method_length);
}

static void append_requests(struct handover_record *record, const struct requests *requests) {
    handover_record_append_number(record, requests->next, 8);
    handover_record_append_number(record, requests->awaited, 1);
}

/// Appends the stored pieces of a stream.
static void append_spans(struct handover_record *record, const struct connection *connection,
                         struct connection_pool *pool) {
    const struct stream *stream = &connection->stream;

    handover_record_append_number(record, stream->span_count, 1);
    for (uint32_t i = 0; i < stream->span_count; i++) {
        handover_record_append_number(record, stream->spans[i].start, 2);
        handover_record_append_number(record, stream->spans[i].end, 2);
    }
    for (uint32_t i = 0; i < stream->span_count; i++) {
        const struct stream_span span = stream->spans[i];

        stream_gather(stream, pool, span.start, span.end, record->bytes + record->length);
        record->length += (size_t)(span.end - span.start);
    }
}

void handover_record_append(struct handover_record *record, const struct connection *connection,
                            struct connection_pool *pool, uint64_t now_ns) {
    const struct stream *stream = &connection->stream;
    const uint64_t since_ns = connection->since_ns;

    append_key(record, &connection->key);
    handover_record_append_number(record, connection->list, 1);
    handover_record_append_number(record, flags_of(connection), 2);
    handover_record_append_number(record, now_ns > since_ns ? now_ns - since_ns : 0, 8);
    handover_record_append_number(record, connection->client_interface, 4);
    handover_record_append_number(record, connection->server_interface, 4);
    handover_record_append_number(record, connection->client_passed, 4);
    handover_record_append_number(record, connection->server_passed, 4);
    handover_record_append_number(record, stream->base, 4);
    handover_record_append_number(record, stream->decided, 4);
    handover_record_append_number(record, stream->acked, 4);
    append_protocol(record, connection);
    append_names(record, &connection->names);
    if (is_http(&connection->names)) {
        append_requests(record, &connection->requests);
        append_requests(record, &connection->requests_begun);
    }
    append_spans(record, connection, pool);
}

/// Removes bytes from the front of the unread bytes, and returns them; returns NULL if fewer are
/// left.
static const uint8_t *part(struct handover_reading *reading, size_t bytes) {
    const uint8_t *taken = reading->at;

    if (bytes > reading->left) {
        reading->cut = true;
        reading->left = 0;
        return NULL;
    }
    reading->at += bytes;
    reading->left -= bytes;
    return taken;
}

uint64_t handover_record_number(struct handover_reading *reading, uint32_t bytes) {
    const uint8_t *taken = part(reading, bytes);
    uint64_t number = 0;

    for (uint32_t i = 0; taken && i < bytes; i++)
        number |= (uint64_t)taken[i] << 8 * i;
    return number;
}

/// Fills a field with the next unread bytes, if enough are left.
static void decode_part(struct handover_reading *reading, uint8_t *field, size_t length) {
    const uint8_t *bytes = part(reading, length);

    if (bytes)
        memcpy(field, bytes, length);
}

/// Returns true if a TCP or UDP packet can have the key. In a valid key the lower end (by address
/// and port) comes first.
static bool is_key(const struct connection_key *key) {
    const uint64_t *words = key->words, first = words[0], version = first >> 8 & 0xffffff;
    const uint64_t ipv4[4] = {words[1] >> 32, 0, words[1] & 0xffffffff, 0};
    const uint64_t *ends = version == 4 ? ipv4 : words + 1;
    const uint64_t low_port = first >> 48, high_port = first >> 32 & 0xffff;

    if ((version != 4 && version != 6) ||
        ((first & 0xff) != IPPROTO_TCP && (first & 0xff) != IPPROTO_UDP))
        return false;
    if (ends[0] != ends[2])
        return ends[0] < ends[2];
    if (ends[1] != ends[3])
        return ends[1] < ends[3];
    return low_port <= high_port;
}

/// Parses a key. Returns true if it is valid and the table does not contain it yet.
static bool decode_key(struct handover_reading *reading, const struct connections *connections,
                       struct connection_key *key) {
    bool is_ipv4;

    *key = (struct connection_key){{handover_record_number(reading, 8)}};
    is_ipv4 = (key->words[0] >> 8 & 0xff) == 4;
    for (uint32_t i = 1; i < (is_ipv4 ? (uint32_t)IPV4_WORDS : CONNECTION_KEY_WORDS); i++)
        key->words[i] = handover_record_number(reading, 8);
    return !reading->cut && is_key(key) &&
           connection_table_find(&connections->table, key,
                                 connection_table_hash(&connections->table, key)) ==
               CONNECTION_SLOT_NONE;
}

/// Checks the list and the age of a connection. Returns true if the list does not come before the
/// previous connection's list, the age does not increase within a list, and the list may contain
/// connections of the protocol.
static bool decode_list(struct handover_reading *reading, uint64_t list, uint64_t age_ns,
                        bool is_udp) {
    uint32_t place = 0;
    bool is_in_order;

    while (place < CONNECTION_LIST_COUNT && (uint64_t)handover_record_order[place] != list)
        place++;
    if (place == CONNECTION_LIST_COUNT || place < reading->list)
        return false;
    is_in_order = place > reading->list || age_ns <= reading->age_ns;
    reading->list = place;
    reading->age_ns = age_ns;
    if (list == CONNECTION_KNOWN || list == CONNECTION_SILENT || list == CONNECTION_OPENING)
        return is_in_order && !is_udp;
    return is_in_order && (list != CONNECTION_DATAGRAMS || is_udp);
}

static void set_flags(struct connection *connection, uint64_t flags) {
    connection->client_low = flags & CLIENT_LOW;
    connection->confirmed = flags & CONFIRMED;
    connection->closed = flags & CLOSED;
    connection->evasion = flags & EVASION;
    connection->is_dns = flags & DNS;
    connection->pending = flags & PENDING;
    connection->pending_low = flags & PENDING_LOW;
    connection->stream.let_go = flags & LET_GO;
    connection->names.ech = flags & ECH;
    connection->stream.ahead = flags & AHEAD;
    connection->syn_data = flags & SYN_DATA;
    connection->may_retry = flags & MAY_RETRY;
    connection->may_switch = flags & MAY_SWITCH;
    connection->accepted = flags & ACCEPTED;
    connection->crossed = flags & CROSSED;
}

/// Parses the fields that only TCP or only UDP has. Returns true if they are valid.
static bool decode_protocol(struct handover_reading *reading, struct connection *connection) {
    struct names_quic_keys *keys = &connection->keys;

    if (!connection->is_udp) {
        connection->begun = (uint32_t)handover_record_number(reading, 4);
        connection->server_begun = (uint32_t)handover_record_number(reading, 4);
        connection->server_end = (uint32_t)handover_record_number(reading, 4);
        connection->pending_base = (uint32_t)handover_record_number(reading, 4);
        connection->pending_client_interface = (uint32_t)handover_record_number(reading, 4);
        connection->pending_server_interface = (uint32_t)handover_record_number(reading, 4);
        return !reading->cut;
    }
    keys->version = (uint32_t)handover_record_number(reading, 4);
    decode_part(reading, keys->key, sizeof keys->key);
    decode_part(reading, keys->iv, sizeof keys->iv);
    decode_part(reading, keys->header, sizeof keys->header);
    keys->next = handover_record_number(reading, 8);
    connection->id_bytes = (uint8_t)handover_record_number(reading, 1);
    decode_part(reading, connection->id, sizeof connection->id);
    return !reading->cut && names_quic_is_understood(keys->version) && keys->next <= NUMBERS &&
           connection->id_bytes <= NAMES_QUIC_CONNECTION_BYTES_MAX;
}

/// Returns true if a list of ALPN protocols has the format of RFC 7301.
static bool are_protocols(const uint8_t *list, uint32_t length) {
    uint32_t at = 0;

    while (at < length) {
        if (list[at] == 0 || list[at] >= length - at)
            return false;
        at += 1U + list[at];
    }
    return true;
}

/// Returns true if a method is a token (RFC 9110, section 5.6.2). A method that was cut to
/// NAMES_METHOD_BYTES ends with a space.
static bool is_method(const uint8_t *method, uint32_t length) {
    static const char more[] = "!#$%&'*+-.^_`|~";

    if (length == NAMES_METHOD_BYTES && method[length - 1] == ' ')
        length--;
    for (uint32_t i = 0; i < length; i++) {
        const uint8_t byte = method[i], letter = byte | 0x20;
        const bool is_plain = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9');

        if (!is_plain && (byte == 0 || !strchr(more, byte)))
            return false;
    }
    return length > 0;
}

/// Returns true if the parsers can produce these names. Their lengths must be valid.
static bool are_names(const struct names *names, bool is_udp) {
    const bool has_host = names->host_length > 0;
    const bool has_hello = names->ech || names->version != 0 || names->alpn_length > 0;
    const bool has_method = names->method_length > 0;
    const bool has_type = names->dns_type != 0;
    const bool is_version = names->version == 0 || names->version >> 8 == 3;
    bool is_good = false;

    if (names->state != NAMES_KNOWN)
        return !has_host && !has_hello && !has_method && !has_type;
    switch (names->protocol) {
    case NAMES_OTHER:
        is_good = !has_host && !has_hello && !has_method && !has_type;
        break;
    case NAMES_TLS:
    case NAMES_QUIC:
        is_good = is_version && are_protocols(names->alpn, names->alpn_length) && !has_method &&
                  !has_type;
        break;
    case NAMES_HTTP:
        is_good = is_method(names->method, names->method_length) && !has_hello && !has_type;
        break;
    case NAMES_DNS:
        is_good = !has_hello && !has_method;
        break;
    }
    for (uint32_t i = 0; i < names->host_length; i++)
        is_good = is_good && (names->host[i] < 'A' || names->host[i] > 'Z');
    return is_good && is_udp == (names->protocol == NAMES_QUIC);
}

/// Parses names. Returns true if they are valid.
static bool decode_names(struct handover_reading *reading, struct names *names, bool is_udp) {
    const uint64_t state = handover_record_number(reading, 1);
    const uint64_t protocol = handover_record_number(reading, 1);
    const uint64_t host = handover_record_number(reading, 1);
    const uint64_t alpn = handover_record_number(reading, 1);
    const uint64_t method = handover_record_number(reading, 1);

    names->version = (uint16_t)handover_record_number(reading, 2);
    names->dns_type = (uint16_t)handover_record_number(reading, 2);
    if (state == NAMES_NONE || state > NAMES_UNREADABLE || protocol >= CONNECTION_PROTOCOL_COUNT)
        return false;
    if (host > NAMES_HOST_BYTES || alpn > NAMES_ALPN_BYTES || method > NAMES_METHOD_BYTES)
        return false;
    names->state = (enum names_state)state;
    names->protocol = (enum names_protocol)protocol;
    names->host_length = (uint8_t)host;
    names->alpn_length = (uint8_t)alpn;
    names->method_length = (uint8_t)method;
    decode_part(reading, names->host, host);
    decode_part(reading, names->alpn, alpn);
    decode_part(reading, names->method, method);
    return !reading->cut && are_names(names, is_udp);
}

/// Parses the state of a connection's HTTP request parser. Returns true if it is valid.
static bool decode_requests(struct handover_reading *reading, struct requests *requests) {
    uint64_t awaited;

    requests->next = handover_record_number(reading, 8);
    awaited = handover_record_number(reading, 1);
    requests->awaited = (enum requests_awaited)awaited;
    return !reading->cut && requests->next < NEXT && awaited < REQUESTS_AWAITED_COUNT;
}

/// Parses the borders of a stream's pieces. Returns true if they are valid.
static bool decode_spans(struct handover_reading *reading,
                         struct stream_span spans[static CONNECTION_SPANS_MAX], uint32_t *count) {
    *count = (uint32_t)handover_record_number(reading, 1);
    if (*count > CONNECTION_SPANS_MAX)
        return false;
    for (uint32_t i = 0; i < *count; i++) {
        spans[i].start = (uint16_t)handover_record_number(reading, 2);
        spans[i].end = (uint16_t)handover_record_number(reading, 2);
        if (i > 0 && spans[i].start <= spans[i - 1].end)
            return false;
        if (spans[i].start >= spans[i].end || spans[i].end > STREAM_BYTES_MAX)
            return false;
    }
    return !reading->cut;
}

/// Parses the pieces of a stream and stores them. If memory is missing, the connection becomes
/// unreadable. Returns true if the pieces are valid.
static bool decode_stream(struct handover_reading *reading, struct connections *connections,
                          uint32_t slot, uint64_t now_ns) {
    struct stream *stream = &connection_table_at(&connections->table, slot)->stream;
    const uint32_t acked = stream->acked;
    struct stream_span spans[CONNECTION_SPANS_MAX];
    uint32_t count, most = STREAM_BYTES_MAX;
    bool is_kept = true;

    if (!decode_spans(reading, spans, &count))
        return false;
    if (!stream->let_go)
        most = count > 0 && spans[0].start == 0 ? spans[0].end : 0;
    if (stream->decided > most || stream->acked > INT32_MAX || (stream->let_go && count > 0))
        return false;
    // The old firewall has stored the bytes before the server acknowledged them.
    stream->acked = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t length = (uint32_t)(spans[i].end - spans[i].start);
        const uint8_t *bytes = part(reading, length);

        if (bytes && is_kept)
            is_kept = lifetime_store(connections, slot, spans[i].start, bytes, length, now_ns) ==
                      STREAM_KEPT;
    }
    stream->acked = acked;
    if (!is_kept)
        lifetime_make_unreadable(connections, slot, CONNECTION_POOL, now_ns);
    return !reading->cut;
}

const char *handover_record_decode(struct handover_reading *reading,
                                   struct connections *connections, uint64_t now_ns) {
    struct connection *connection;
    struct connection_key key;
    uint64_t list, flags, age_ns;
    uint32_t slot;
    bool is_udp;

    if (!decode_key(reading, connections, &key))
        return "key";
    is_udp = (key.words[0] & 0xff) == IPPROTO_UDP;
    list = handover_record_number(reading, 1);
    flags = handover_record_number(reading, 2);
    age_ns = handover_record_number(reading, 8);
    if (reading->cut || !decode_list(reading, list, age_ns, is_udp))
        return "list";
    if ((flags & ~(uint64_t)FLAGS) != 0 || (flags & (is_udp ? TCP_FLAGS : ACCEPTED)) != 0 ||
        (flags & (DNS | AHEAD)) == AHEAD)
        return "flags";
    slot = lifetime_add(connections, &key, connection_table_hash(&connections->table, &key),
                        flags & CLIENT_LOW, (enum connection_list)list,
                        now_ns > age_ns ? now_ns - age_ns : 0, now_ns);
    connection = connection_table_at(&connections->table, slot);
    connection->is_udp = is_udp;
    set_flags(connection, flags);
    connection->client_interface = (uint32_t)handover_record_number(reading, 4);
    connection->server_interface = (uint32_t)handover_record_number(reading, 4);
    connection->client_passed = (uint32_t)handover_record_number(reading, 4);
    connection->server_passed = (uint32_t)handover_record_number(reading, 4);
    connection->stream.base = (uint32_t)handover_record_number(reading, 4);
    connection->stream.decided = (uint32_t)handover_record_number(reading, 4);
    connection->stream.acked = (uint32_t)handover_record_number(reading, 4);
    if (!decode_protocol(reading, connection))
        return "protocol";
    if (!decode_names(reading, &connection->names, is_udp) ||
        (connection->may_retry && !retry_can(&connection->names)) ||
        (connection->may_switch && !is_http(&connection->names)) ||
        (connection->accepted && connection->names.state != NAMES_KNOWN))
        return "names";
    if (is_http(&connection->names) && (!decode_requests(reading, &connection->requests) ||
                                        !decode_requests(reading, &connection->requests_begun)))
        return "requests";
    if (is_udp)
        connection_ids_add(&connections->table, slot, connection->id, connection->id_bytes);
    return decode_stream(reading, connections, slot, now_ns) ? NULL : "stream";
}
