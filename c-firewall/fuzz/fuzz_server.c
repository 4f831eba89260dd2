// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of the following of connections, with models of TCP servers behind the firewall. A client
// does anything that a client can (decoys that do not reach the server, different bytes for the
// same sequence number, SYNs, RSTs, FINs, pauses, reuse of ports), and forges packets of the
// server. If all verdicts are applied, no server may receive a request for the denied name.
//
// Input: a byte of properties for each server, then steps (enum step). With TWINWALL_LINES set each
// input's verdicts are printed, to be compared with those of the Rust twin.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/follow.h"
#include "connections.h"
#include "engine.h"
#include "engine/named.h"
#include "handover/connections.h"
#include "server.h"

enum {
    SERVERS = 3,
    HEADER_BYTES = 40,
    CLIENT_SIDE = 2, // interfaces of client and server
    SERVER_SIDE = 3,
    CLIENT = 2, // last bytes of the clients' addresses
    OTHER_CLIENT = 3,
    DENIED = 16, // bit of STEP_SERVER: the client sends the denied name, otherwise the allowed name
    WRAPS = 32,  // property of a server: the sequence numbers of its client wrap
};

/// Offsets of the parts of a step in the fuzzer's input, and a step's length.
enum step {
    STEP_ACTION, // number of the action (enum action), modulo ACTION_COUNT
    STEP_SERVER, // number of the server, the bit DENIED, and the packet's fate (enum fate)
    // 2 bytes. For data: its offset in the client's first bytes (content_make); from 0x8000 on, the
    // offset of the next byte that the server expects. For ACTION_OTHERS: the first client port.
    STEP_OFFSET,
    STEP_LENGTH = STEP_OFFSET + 2,
    STEP_CHANGE = STEP_LENGTH + 2, // change of the client's segment (enum change), modulo 16
    STEP_PAUSE,                    // time before the step, as a code for pause_ms
    STEP_BYTES,
};

enum action {
    ACTION_SYN,
    ACTION_SYN_TOO, // SYN, so that many connections are opened
    ACTION_FLAGS,   // client's segment with odd flags
    ACTION_RELOAD,
    ACTION_HAND_OVER,
    ACTION_FORGE,  // forged packet: the server's address, from the client's side
    ACTION_OTHERS, // connections of another client
    ACTION_DATA,   // segment with data; the higher numbers are the same
    ACTION_COUNT = 14,
};

/// Fate of a client's packet: the three highest bits of the step's byte STEP_SERVER. With other
/// values the packet arrives unchanged.
enum fate {
    FATE_DECOY = 4,    // the packet is lost between the firewall and the server
    FATE_DECOY_TOO,    // the same as FATE_DECOY
    FATE_BAD_CHECKSUM, // the checksum is wrong, and the server does not receive the packet
    FATE_UNHEARD,      // the server's answer is lost before the firewall
};

/// Change of a client's segment: the step's byte STEP_CHANGE modulo 16. Other values change
/// nothing.
enum change {
    CHANGE_ACKNOWLEDGED = 10,
    CHANGE_NO_ACK,
    CHANGE_URGENT,
    CHANGE_SEQUENCE, // changes the sequence number by one of shifts
    CHANGE_BYTE,     // changes a byte of the data
    CHANGE_BASE,     // changes the client's initial sequence number
};

#define MS_NS UINT64_C(1000000)

static const char POLICY[] =
    "table inet t {\nset d { type hostname; elements = { \"" CONTENT_DENIED "\" } }\n"
    "chain c {\ntype filter hook input priority 0; policy accept;\n"
    "th dport 53 dns name @d drop\ntls sni @d drop\nhttp host @d reject\n}\n}\n";
static const uint32_t shifts[] = {UINT32_MAX, 1, UINT32_MAX - 2, 2};
static const uint8_t odd_flags[] = {
    SERVER_RST, SERVER_RST | SERVER_ACK, SERVER_FIN | SERVER_ACK,
    SERVER_FIN, SERVER_SYN | SERVER_ACK, SERVER_SYN | SERVER_RST,
    SERVER_ACK,
};
static const uint16_t ports[CONTENT_COUNT] = {443, 80, 53};

static struct engine engine;
static struct connections connections;
static struct server servers[SERVERS];
static uint32_t bases[SERVERS]; // sequence number of the client's next SYN
static uint32_t known[SERVERS]; // sequence number of the server's SYN, as far as the client knows
static uint32_t drawn;          // number of first sequence numbers that were generated
static uint64_t now_ns, generation;

static void make_connections(struct connections *made) {
    const struct connection_settings settings = {
        .connections = 64,
        .hello_bytes = 65536,
        .hello_timeout_ns = 10000 * MS_NS,
        .undecided_bytes = 32768,
    };

    if (connection_make(made, &settings) < 0)
        abort();
    // The key is fixed, so that each run evicts the same connections.
    made->table.key = (struct siphash_key){{1, 2}};
}

static uint32_t draw_base(const struct server *server) {
    drawn++;
    return server->properties & WRAPS ? UINT32_MAX - drawn * 97 % CONTENT_BYTES
                                      : drawn * 0x10001001;
}

static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value);
}

/// Adds 16-bit words to a ones' complement sum, for a checksum (RFC 1071). Returns the sum.
static uint32_t add_up(const uint8_t *bytes, uint32_t length, uint32_t sum) {
    for (uint32_t i = 0; i < length; i++)
        sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/// Writes an IPv4 packet with a valid TCP checksum. Returns its length.
/// - client: last byte of the client's address.
/// - is_clients: true if the client is the source, false if the server is.
static uint32_t write_packet(uint8_t *bytes, uint8_t client, uint32_t client_port,
                             uint32_t server_port, bool is_clients, const struct sent *sent) {
    const uint8_t ends[2][4] = {{10, 0, 1, 1}, {10, 0, 0, client}};
    const uint32_t length = HEADER_BYTES + sent->length;

    memset(bytes, 0, HEADER_BYTES);
    bytes[0] = 0x45;
    put16(bytes + 2, length);
    bytes[6] = 0x40;
    bytes[8] = 64;
    bytes[9] = 6;
    memcpy(bytes + 12, ends[is_clients], 4);
    memcpy(bytes + 16, ends[!is_clients], 4);
    put16(bytes + 20, is_clients ? client_port : server_port);
    put16(bytes + 22, is_clients ? server_port : client_port);
    put32(bytes + 24, sent->sequence);
    put32(bytes + 28, sent->acknowledged);
    bytes[32] = 0x50;
    bytes[33] = sent->flags;
    if (sent->length > 0)
        memcpy(bytes + HEADER_BYTES, sent->data, sent->length);
    put16(bytes + 36, 0xffff ^ add_up(bytes + 12, length - 12, 6 + length - 20));
    return length;
}

/// Returns true if the firewall accepts a packet. With TWINWALL_LINES set, prints `+` or `-` (not
/// accepted).
/// - from_client_side: true if the packet arrives from the client's side, false if it arrives from
///   the servers' side.
static bool passes(const uint8_t *bytes, uint32_t length, bool from_client_side) {
    const struct decide_settings settings = {.default_verdict = VERDICT_ACCEPT,
                                             .undecided_verdict = VERDICT_ACCEPT};
    const struct connection_input how = {
        .checksum = CONNECTION_CHECKSUM_UNVERIFIED,
        .source_interface = from_client_side ? CLIENT_SIDE : SERVER_SIDE,
        .sink_interface = from_client_side ? SERVER_SIDE : CLIENT_SIDE,
        .generation = generation,
        .asks_requests = true,
        .now_ns = now_ns,
    };
    uint8_t *own = malloc(length); // of this exact size: the sanitizer reports reads after it
    struct packet packet;
    struct decide_outcome outcome;
    struct decide_input input;
    enum packet_status status;
    struct named named;

    memcpy(own, bytes, length);
    status = packet_parse(own, length, length, &packet);
    input = engine_input(&packet, status);
    named = named_follow(&connections, engine.compiled, &packet, &how);
    do {
        named_tell(&named, connection_names(&connections, &named.followed), &input);
        decide_packet(&settings, engine.compiled, &engine.flow, &engine.counters, &input, &outcome);
    } while (outcome.verdict == VERDICT_ACCEPT &&
             named_next(&connections, engine.compiled, generation, &named));
    if (named_refuses(&named, &outcome))
        connection_deny(&connections, &named.followed, generation,
                        outcome.verdict == VERDICT_REJECT);
    free(own);
    if (getenv("TWINWALL_LINES"))
        putchar(outcome.verdict == VERDICT_ACCEPT ? '+' : '-');
    return outcome.verdict == VERDICT_ACCEPT;
}

/// Sends a segment between the client and a server through the firewall. Returns true if it is
/// accepted.
/// - number: number of the server.
/// - is_clients: true if the client is the source address.
/// - from_client_side: true if the segment arrives from the client's side.
/// - is_bad: true if the checksum is wrong.
static bool through(uint32_t number, bool is_clients, bool from_client_side, bool is_bad,
                    const struct sent *sent) {
    static uint8_t bytes[HEADER_BYTES + CONTENT_BYTES];
    const uint32_t length =
        write_packet(bytes, CLIENT, 2000 + number, ports[servers[number].kind], is_clients, sent);

    bytes[36] ^= is_bad ? 0x55 : 0;
    return passes(bytes, length, from_client_side);
}

/// Sends a client's segment through the firewall. If the segment reaches the server, the server may
/// answer, and the program aborts if the server has received a request for the denied name.
/// - number: number of the server.
static void send_segment(const uint8_t *step, uint32_t number, const struct sent *sent) {
    const uint8_t fate = step[STEP_SERVER] >> 5;
    const bool is_bad = fate == FATE_BAD_CHECKSUM;
    const bool is_lost = is_bad || fate == FATE_DECOY || fate == FATE_DECOY_TOO;
    struct server *server = &servers[number];
    struct sent answer;
    bool answers;

    if (!through(number, true, true, is_bad, sent) || is_lost)
        return;
    drawn++;
    answers = server_receive(server, sent, drawn * 0x01000193, &answer);
    if (server_is_asked_for_denied(server))
        abort();
    if (answers && fate != FATE_UNHEARD && through(number, false, false, false, &answer) &&
        (answer.flags & SERVER_SYN))
        known[number] = answer.sequence;
}

/// Changes a client's segment as the step's change says.
/// - number: number of the server.
/// - data: the segment's data, which are writable.
static void change(const uint8_t *step, uint32_t number, uint8_t *data, struct sent *sent) {
    switch (step[STEP_CHANGE] % 16) {
    case CHANGE_ACKNOWLEDGED:
        sent->acknowledged += 0x5000;
        break;
    case CHANGE_NO_ACK:
        sent->flags &= (uint8_t)~SERVER_ACK;
        break;
    case CHANGE_URGENT:
        sent->flags |= SERVER_URG;
        break;
    case CHANGE_SEQUENCE:
        sent->sequence += shifts[step[STEP_CHANGE] >> 6];
        break;
    case CHANGE_BYTE:
        if (sent->length > 0)
            data[step[STEP_CHANGE] % sent->length] ^= 1;
        break;
    case CHANGE_BASE:
        sent->sequence -= bases[number];
        bases[number] = draw_base(&servers[number]);
        sent->sequence += bases[number];
        break;
    default:
        break;
    }
}

/// Sends a client's SYN, or a part of the client's first bytes (the content, content_make) as data.
/// The step contains the part's offset and length. If bit 15 of the offset is set, the part begins
/// at the next byte that the server expects. If bit 15 of the length is set, the part ends at the
/// content's end. A SYN has data only if bit 15 of the offset is set; the data begins at the
/// content's start.
/// - number: number of the server.
static void send_content(const uint8_t *step, uint32_t number, bool is_syn) {
    const struct server *server = &servers[number];
    const uint32_t offset = get16(step + STEP_OFFSET), length = get16(step + STEP_LENGTH);
    struct content content;
    struct sent sent;
    uint32_t place, left;

    content_make(server->kind, step[STEP_SERVER] & DENIED, server->properties, &content);
    place = is_syn ? 0 : (offset & 0x8000 ? server->next : offset) % content.length;
    left = content.length - place;
    sent = (struct sent){
        .flags = is_syn ? SERVER_SYN : SERVER_ACK,
        .sequence = bases[number] + (is_syn ? 0 : 1 + place),
        .acknowledged = is_syn ? 0 : known[number] + 1,
        .data = content.bytes + place,
        .length = length & 0x8000 ? left : 1 + length % left,
    };
    if (is_syn && !(offset & 0x8000))
        sent.length = 0;
    change(step, number, content.bytes + place, &sent);
    send_segment(step, number, &sent);
}

/// Sends a segment without data, whose flags are one of odd_flags: from the client, or forged with
/// the server's address.
/// - number: number of the server.
static void send_flags(const uint8_t *step, uint32_t number, bool is_forged) {
    const struct server *server = &servers[number];
    const uint32_t clients = bases[number] + 1 + (step[STEP_OFFSET] & 1 ? server->next : 0);
    struct sent sent = {
        .flags = odd_flags[step[STEP_LENGTH] % sizeof odd_flags],
        .sequence = clients,
        .acknowledged = known[number] + 1,
    };

    if (is_forged) {
        sent.sequence = known[number] + !(sent.flags & SERVER_SYN);
        sent.acknowledged = clients + step[STEP_OFFSET] % 2 * CONTENT_BYTES;
        through(number, false, true, false, &sent);
    } else {
        send_segment(step, number, &sent);
    }
}

/// Hands the connections over to another firewall.
static void hand_over(void) {
    struct handover_connections_taken taken;
    struct connections next;
    size_t length;
    uint8_t *bytes = connections_written(&connections, 1 << 26, now_ns, &length);

    make_connections(&next);
    if (handover_connections_parse(bytes, length, &next, now_ns, &taken))
        abort();
    connection_free(&connections);
    connections = next;
    generation++;
    free(bytes);
}

/// Opens connections of another client, so that the table of connections may become full.
static void open_others(const uint8_t *step) {
    const struct sent sent = {.flags = SERVER_SYN};
    uint8_t bytes[HEADER_BYTES];

    for (uint32_t i = 0; i < step[STEP_LENGTH] % 64U; i++) {
        write_packet(bytes, OTHER_CLIENT, get16(step + STEP_OFFSET) + i, ports[0], true, &sent);
        passes(bytes, HEADER_BYTES, true);
    }
}

/// Returns the time before a step: mostly short, or longer than one of the time-outs.
static uint64_t pause_ms(uint8_t pause) {
    if (pause < 0xe0)
        return 1;
    if (pause < 0xf0)
        return (pause & 0xfU) * 100;
    return pause < 0xf8 ? 11000 : pause < 0xfc ? 130000 : 500000;
}

static void take_step(const uint8_t *step) {
    const uint32_t number = (step[STEP_SERVER] & 0xf) % SERVERS;
    const uint8_t action = step[STEP_ACTION] % ACTION_COUNT;

    now_ns += pause_ms(step[STEP_PAUSE]) * MS_NS;
    if (action == ACTION_RELOAD)
        generation++;
    else if (action == ACTION_HAND_OVER)
        hand_over();
    else if (action == ACTION_OTHERS)
        open_others(step);
    else if (action == ACTION_FLAGS || action == ACTION_FORGE)
        send_flags(step, number, action == ACTION_FORGE);
    else
        send_content(step, number, action < ACTION_FLAGS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SERVERS)
        return -1;
    if (!engine.compiled)
        engine = engine_make(POLICY, false);
    make_connections(&connections);
    now_ns = 1000000 * MS_NS;
    generation = 1;
    drawn = 0;
    for (uint32_t i = 0; i < SERVERS; i++) {
        servers[i] = server_make(data[i]);
        bases[i] = draw_base(&servers[i]);
        known[i] = 0;
    }
    for (size_t at = SERVERS; size - at >= STEP_BYTES; at += STEP_BYTES)
        take_step(data + at);
    if (getenv("TWINWALL_LINES"))
        putchar('\n');
    connection_free(&connections);
    return 0;
}
