// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "client.h"
#include "engine/named.h"

// First bytes of a ServerHello that is no HelloRetryRequest: headers of record and message,
// version, first random byte.
static const uint8_t server_hello[] = {22, 3, 3, 0, 122, 2, 0, 0, 118, 3, 3, 'r'};

static const char policy[] = "table inet filter {\n"
                             "\tset listed {\n"
                             "\t\ttype hostname\n"
                             "\t\telements = { \"listed.example\", \"*.tracker.example\" }\n"
                             "\t}\n"
                             "\tchain input {\n"
                             "\t\ttype filter hook input priority filter; policy accept;\n"
                             "\t\ttls sni @listed drop\n"
                             "\t\tth dport 53 dns name @listed drop\n"
                             "\t}\n"
                             "}\n";

enum {
    // Maximum number of connections: twice the number of clients in a round. Beyond that, old
    // connections are evicted.
    CONNECTIONS = 2 * CASES_PACKETS,
    HELLO_BYTES = 4 << 20,
    SECOND_NS = 1000000000,
    HEADER_BYTES = 20,
    SOURCE = 12, // offset of the source address in the IPv4 header
    DESTINATION = 16,
    TCP = 6,
    UDP = 17,
    SYN = 0x02,
    ACK = 0x10,
    CLIENT_FIRST = 1000, // sequence number of a client's first byte
    SERVER_FIRST = 5000,
    // Sequence number up to which the server acknowledges a client's ClientHello, which has fewer
    // than 4000 bytes.
    KNOWN = CLIENT_FIRST + 4000,
    SHARE_BYTES = 320, // size of the key share of a ClientHello in one packet
    // Size of the key share of a ClientHello in two packets (with ML-KEM-768).
    LONG_SHARE_BYTES = 1216,
    SEGMENT_BYTES = 1400, // maximum number of data bytes in a packet
    STEPS_MAX = 256,
};

/// Packet of a benchmark case. Before it is decided, the address and port of one of the case's
/// clients are written into it.
struct step {
    bool from_client;
    struct client_bytes bytes;
};

struct step_list {
    uint32_t count;
    struct step steps[STEPS_MAX];
};

/// Creates an IPv4 packet between a client in 10.0.0.0/8 and the server 192.0.2.1.
static void add_ipv4(struct step_list *list, bool from_client, uint8_t protocol,
                     const struct client_bytes *segment) {
    struct step *step = &list->steps[list->count++];
    const size_t length = HEADER_BYTES + segment->count;
    uint8_t header[HEADER_BYTES] = {
        0x45, 0, (uint8_t)(length >> 8), (uint8_t)length, 0, 0, 0x40, 0, 64, protocol};

    header[from_client ? SOURCE : DESTINATION] = 10;
    memcpy(&header[from_client ? DESTINATION : SOURCE], (uint8_t[]){192, 0, 2, 1}, 4);
    *step = (struct step){.from_client = from_client};
    client_put(&step->bytes, header, sizeof header);
    client_put(&step->bytes, segment->at, segment->count);
}

static void add_tcp(struct step_list *list, bool from_client, uint8_t flags, uint32_t sequence,
                    uint32_t acknowledged, const void *data, size_t count) {
    struct client_bytes segment = {4, {1, 187, 1, 187}};

    client_put_number(&segment, 4, sequence);
    client_put_number(&segment, 4, acknowledged);
    client_put(&segment, (uint8_t[]){0x50, flags, 0xff, 0xff, 0, 0, 0, 0}, 8);
    client_put(&segment, data, count);
    add_ipv4(list, from_client, TCP, &segment);
}

static void add_udp(struct step_list *list, uint16_t port, const struct client_bytes *data) {
    struct client_bytes segment = {2, {0}};

    client_put_number(&segment, 2, port);
    client_put_number(&segment, 4, (8 + data->count) << 16);
    client_put(&segment, data->at, data->count);
    add_ipv4(list, true, UDP, &segment);
}

/// Creates the SYN and SYN-ACK of a connection.
static void add_opening(struct step_list *list) {
    add_tcp(list, true, SYN, CLIENT_FIRST - 1, 0, "", 0);
    add_tcp(list, false, SYN | ACK, SERVER_FIRST - 1, CLIENT_FIRST, "", 0);
}

/// Creates the packets of a connection up to its ClientHello, which is split into segments of at
/// most SEGMENT_BYTES.
static void add_hello(struct step_list *list, size_t share_bytes) {
    const struct client_bytes hello = client_hello(share_bytes), record = client_record(&hello);

    add_opening(list);
    for (size_t at = 0; at < record.count; at += SEGMENT_BYTES) {
        const size_t left = record.count - at;

        add_tcp(list, true, ACK, (uint32_t)(CLIENT_FIRST + at), SERVER_FIRST, &record.at[at],
                left < SEGMENT_BYTES ? left : SEGMENT_BYTES);
    }
}

/// Creates the packets of a connection up to the server's answer to the ClientHello.
static void add_known(struct step_list *list) {
    add_hello(list, SHARE_BYTES);
    add_tcp(list, false, ACK, SERVER_FIRST, KNOWN, server_hello, sizeof server_hello);
}

static void add_packet(struct step_list *list) {
    uint8_t data[64];

    memset(data, 'x', sizeof data);
    add_tcp(list, true, ACK, KNOWN, SERVER_FIRST, data, sizeof data);
}

static void add_short_hello(struct step_list *list) { add_hello(list, SHARE_BYTES); }

static void add_long_hello(struct step_list *list) { add_hello(list, LONG_SHARE_BYTES); }

/// Creates the packets of a connection with an HTTP request, which has a packet for each line.
static void add_lines(struct step_list *list) {
    const struct client_bytes request = client_request();
    size_t at = 0;

    add_opening(list);
    while (at < request.count) {
        const uint8_t *end = memchr(&request.at[at], '\n', request.count - at);
        const size_t length = (size_t)(end - &request.at[at]) + 1;

        add_tcp(list, true, ACK, (uint32_t)(CLIENT_FIRST + at), SERVER_FIRST, &request.at[at],
                length);
        at += length;
    }
}

/// Creates the packets of a connection up to its ClientHello, which has a TLS record and a packet
/// for each byte.
static void add_records(struct step_list *list) {
    const struct client_bytes hello = client_hello(0);
    uint32_t sequence = CLIENT_FIRST;

    add_opening(list);
    for (size_t at = 0; at < hello.count; at++) {
        const struct client_bytes byte = {1, {hello.at[at]}}, record = client_record(&byte);

        add_tcp(list, true, ACK, sequence, SERVER_FIRST, record.at, record.count);
        sequence += (uint32_t)record.count;
    }
}

static void add_initial(struct step_list *list) {
    const struct client_bytes hello = client_hello(SHARE_BYTES), initial = client_initial(&hello);

    add_udp(list, 443, &initial);
}

static void add_query(struct step_list *list) {
    const struct client_bytes query = client_query();

    add_udp(list, 53, &query);
}

const struct named_case named_cases[NAMED_CASE_COUNT] = {
    {"names-packet", add_known, add_packet},  {"names-opening", NULL, add_opening},
    {"names-hello-1", NULL, add_short_hello}, {"names-hello-2", NULL, add_long_hello},
    {"names-lines", NULL, add_lines},         {"names-records", NULL, add_records},
    {"names-quic", NULL, add_initial},        {"names-dns", NULL, add_query},
};

/// State of a case that is measured.
struct named_subject {
    struct case_subject subject;
    struct connections connections;
    struct step_list list;
    uint32_t client; // number of the next client
    bool again;
    uint64_t now_ns;
};

struct named_subject *names_make(const struct named_case *named_case) {
    static const struct connection_settings settings = {
        .connections = CONNECTIONS,
        .hello_bytes = HELLO_BYTES,
        .hello_timeout_ns = 10ULL * SECOND_NS,
        .undecided_bytes = 8192,
    };
    struct named_subject *subject = calloc(1, sizeof *subject);

    subject->subject = cases_compile(policy);
    subject->now_ns = SECOND_NS;
    if (connection_make(&subject->connections, &settings) < 0)
        abort();
    if (named_case->before) {
        named_case->before(&subject->list);
        names_round(subject);
        subject->again = true;
        subject->list.count = 0;
    }
    named_case->each(&subject->list);
    return subject;
}

void names_free(struct named_subject *subject) {
    connection_free(&subject->connections);
    cases_free_subject(&subject->subject);
    free(subject);
}

/// Writes a client's address and port into a packet: as source in the client's packets, as
/// destination in the server's.
static void set_client(struct step *step, uint32_t client) {
    uint8_t *address = &step->bytes.at[step->from_client ? SOURCE : DESTINATION];
    uint8_t *port = &step->bytes.at[step->from_client ? HEADER_BYTES : HEADER_BYTES + 2];

    address[1] = (uint8_t)(client >> 24);
    address[2] = (uint8_t)(client >> 16);
    address[3] = (uint8_t)(client >> 8);
    port[0] = 0x80;
    port[1] = (uint8_t)client;
}

/// Follows and decides a packet, as a worker does. Returns true if the packet is accepted.
static bool decide_one(struct named_subject *subject, const struct client_bytes *bytes) {
    const struct compiled *compiled = subject->subject.compiled;
    const struct connection_input how = {
        .checksum = CONNECTION_CHECKSUM_VERIFIED,
        .generation = 1,
        .now_ns = subject->now_ns,
    };
    const uint32_t count = (uint32_t)bytes->count;
    struct packet packet;
    const enum packet_status status = packet_parse(bytes->at, count, count, &packet);
    struct decide_input input = cases_input(&packet, status);
    const struct named named = named_follow(&subject->connections, compiled, &packet, &how);
    struct decide_outcome outcome;

    named_tell(&named, connection_names(&subject->connections, &named.followed), &input);
    cases_decide(&subject->subject, &input, &outcome);
    return outcome.verdict == VERDICT_ACCEPT && !named_refuses(&named, &outcome);
}

uint32_t names_round(struct named_subject *subject) {
    uint32_t accepted = 0;

    if (subject->again)
        subject->client = 0;
    for (uint32_t i = 0; i < CASES_PACKETS; i++) {
        for (uint32_t step = 0; step < subject->list.count; step++) {
            set_client(&subject->list.steps[step], subject->client);
            accepted += decide_one(subject, &subject->list.steps[step].bytes);
        }
        subject->client++;
        subject->now_ns += 1000;
    }
    return accepted;
}
