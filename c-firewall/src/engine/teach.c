// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/teach.h"

#include <netinet/in.h>

#include "base/counts.h"
#include "connection/checksum.h"
#include "engine/hostnames.h"
#include "engine/learned.h"
#include "engine/lookup.h"
#include "names/answer.h"
#include "names/cursor.h"

enum {
    DNS_PORT = 53,    // port of DNS servers
    LENGTH_BYTES = 2, // length of the length field before a DNS message over TCP
    TCP_LENGTH = 12,  // offset of the header's length in TCP
    UDP_LENGTH = 4,   // offset of the datagram's length in UDP
    TCP_SEQUENCE = 4, // offset of the sequence number in TCP
    TCP_FLAGS = 13,   // offset of the flags in TCP (RFC 9293, section 3.1)
    SYN = 0x02,
    ACK = 0x10,
};

#define SECOND_NS UINT64_C(1000000000)

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void count(struct teach_output *output, enum teach_result result) {
    output->results[result]++;
}

/// Fills in the payload of a packet with ports. Returns false if its length is invalid, if not all
/// of it was captured, or if a checksum that the kernel has not verified is wrong.
static bool data_of(const struct packet *packet, const struct connection_input *how,
                    struct names_cursor *data) {
    const bool is_tcp = packet->protocol == IPPROTO_TCP;
    const uint32_t start = packet->l4_offset;
    const uint32_t available = packet->end > start ? packet->end - start : 0;
    const uint8_t *header = packet->bytes + start;
    uint32_t header_bytes = PACKET_UDP_HEADER_BYTES, bytes = available;

    if (available < (is_tcp ? PACKET_TCP_HEADER_BYTES : PACKET_UDP_HEADER_BYTES) ||
        packet->end > packet->captured)
        return false;
    if (is_tcp)
        header_bytes = (header[TCP_LENGTH] >> 4) * 4U;
    else
        bytes = (uint32_t)(header[UDP_LENGTH] << 8 | header[UDP_LENGTH + 1]);
    if (bytes > available || header_bytes > bytes ||
        (is_tcp && header_bytes < PACKET_TCP_HEADER_BYTES))
        return false;
    if (how->checksum == CONNECTION_CHECKSUM_UNVERIFIED && !checksum_is_right(packet, bytes))
        return false;
    *data = names_cursor_begin(header + header_bytes, bytes - header_bytes);
    return true;
}

/// Returns the bits of the sets that learn from a message, by its name and type.
static uint32_t sets_of(const struct compiled *compiled, const struct answer *message) {
    const bool is_ipv6 = message->dns_type == NAMES_ANSWER_TYPE_AAAA;
    uint32_t number, sets = 0;

    if (message->host.length == 0 || !names_answer_asks_address(message))
        return 0;
    number = hostnames_find(&compiled->hosts, message->host.bytes, message->host.length);
    for (uint32_t i = 0; number > 0 && i < compiled->learning_count; i++) {
        const struct compile_learning *learning = &compiled->learning[i];

        if (learning->kernel.is_ipv6 == is_ipv6 &&
            lookup_find(&learning->names, number) != LOOKUP_NONE)
            sets |= UINT32_C(1) << i;
    }
    return sets;
}

/// Adds the addresses of a DNS answer to sets, and calls the listener for each of these sets.
/// - sets: bits of the sets, from sets_of.
static void learn(const struct compiled *compiled, uint32_t sets, const struct answer *answer,
                  uint64_t now_ns, struct teach_output *output) {
    uint64_t end_ns = now_ns + TEACH_TTL_MIN * SECOND_NS;

    if (!compiled->learned)
        return;
    if (answer->ttl > TEACH_TTL_MAX)
        end_ns = now_ns + TEACH_TTL_MAX * SECOND_NS;
    else if (answer->ttl > TEACH_TTL_MIN)
        end_ns = now_ns + answer->ttl * SECOND_NS;
    for (uint32_t i = 0; i < compiled->learning_count; i++) {
        const struct compile_learning *learning = &compiled->learning[i];

        if (!(sets >> i & 1))
            continue;
        for (uint32_t j = 0; j < answer->count; j++)
            if (learned_add(compiled->learned, learning->identity, answer->addresses[j], end_ns,
                            now_ns))
                counts_add(COUNT_LEARNED_EVICTED, 1);
        if (output->listener)
            output->listener(output->context, &learning->kernel, answer->addresses, answer->count,
                             end_ns);
    }
}

/// Returns true if the client that sent a DNS query opened the connection of the query. Always true
/// if the kernel has checked it (is_directed). Always true for TCP, because answers are read only
/// on TCP connections that their clients opened (borders).
static bool is_clients(const struct asked *asked, const struct packet *packet,
                       const struct connection_input *how) {
    const bool is_known = packet->protocol == IPPROTO_TCP || how->is_directed;

    return is_known || openers_is_clients(&asked->openers, packet, how);
}

/// Reads a DNS message: stores a query for a name that a set learns, or adds the addresses of an
/// answer to sets, and counts the result of the answer.
static void learn_message(struct asked *asked, const struct compiled *compiled,
                          const struct packet *packet, const struct names_cursor *message,
                          const struct connection_input *how, struct teach_output *output) {
    struct answer read = {0};
    const uint32_t offset = names_answer_question(message->bytes, message->length, &read);
    uint32_t sets;

    if (!read.is_answer) {
        if (packet->destination_port == DNS_PORT && offset > 0 && sets_of(compiled, &read) != 0 &&
            is_clients(asked, packet, how))
            asked_note(asked, packet, &read, how);
        return;
    }
    if (packet->source_port != DNS_PORT)
        return;
    if (offset == 0) {
        count(output, TEACH_UNREADABLE);
        return;
    }
    sets = sets_of(compiled, &read);
    if (sets == 0) {
        count(output, TEACH_OTHER);
    } else if (!asked_remove(asked, packet, &read, how)) {
        count(output, TEACH_UNASKED);
    } else if (!names_answer_parse(message->bytes, message->length, offset, &read)) {
        count(output, TEACH_UNREADABLE);
    } else {
        learn(compiled, sets, &read, how->now_ns, output);
        count(output, read.count > 0 ? TEACH_LEARNED : TEACH_EMPTY);
    }
}

/// Reads the messages of a TCP segment, each preceded by its length. Returns true if the segment
/// contains the last message completely.
static bool learn_stream(struct asked *asked, const struct compiled *compiled,
                         const struct packet *packet, struct names_cursor data,
                         const struct connection_input *how, struct teach_output *output) {
    while (data.length > 0) {
        const struct names_cursor message = names_cursor_vector(&data, LENGTH_BYTES);

        if (message.cut)
            return false;
        learn_message(asked, compiled, packet, &message, how, output);
    }
    return true;
}

/// Reads the DNS messages of a server's TCP segment, from the stored sequence number at which the
/// next message begins. Returns false if the segment has data and the number is unknown or before
/// the segment, or if a message does not end in the segment.
static bool learn_answers(struct asked *asked, const struct compiled *compiled,
                          const struct packet *packet, uint32_t sequence, struct names_cursor data,
                          const struct connection_input *how, struct teach_output *output) {
    struct names_cursor left;
    int32_t distance;
    uint32_t next;

    if (!borders_next(&asked->borders, packet, how, &next))
        return data.length == 0;
    distance = (int32_t)(next - sequence);
    if (distance < 0 || (uint32_t)distance > data.length)
        return distance > 0 || data.length == 0;
    data = names_cursor_begin(data.bytes + distance, data.length - (uint32_t)distance);
    left = data;
    while (left.length >= LENGTH_BYTES) {
        const uint32_t length = LENGTH_BYTES + (uint32_t)(left.bytes[0] << 8 | left.bytes[1]);

        next += length;
        left = length <= left.length ? names_cursor_begin(left.bytes + length, left.length - length)
                                     : names_cursor_begin(left.bytes, 0);
        borders_set(&asked->borders, packet, how, next);
    }
    return learn_stream(asked, compiled, packet, data, how, output);
}

/// Reads a TCP segment. Returns false if the segment or a message in it is unreadable.
static bool learn_segment(struct asked *asked, const struct compiled *compiled,
                          const struct packet *packet, struct names_cursor data,
                          const struct connection_input *how, struct teach_output *output) {
    const uint8_t *header = packet->bytes + packet->l4_offset;
    const uint32_t sequence = be32(header + TCP_SEQUENCE);

    switch (header[TCP_FLAGS] & (SYN | ACK)) {
    case SYN:
        borders_begin(&asked->borders, packet, how);
        break;
    case SYN | ACK:
        borders_set(&asked->borders, packet, how, sequence + 1);
        break;
    default:
        return packet->source_port == DNS_PORT
                   ? learn_answers(asked, compiled, packet, sequence, data, how, output)
                   : learn_stream(asked, compiled, packet, data, how, output);
    }
    return data.length == 0;
}

void teach_packet(struct asked *asked, const struct compiled *compiled, const struct packet *packet,
                  const struct connection_input *how, struct teach_output *output) {
    const bool is_servers = packet->source_port == DNS_PORT;
    const bool is_tcp = packet->protocol == IPPROTO_TCP;
    struct names_cursor data;
    bool is_read = true;

    if (!packet->has_ports || (!is_servers && packet->destination_port != DNS_PORT))
        return;
    if (!is_tcp && !how->is_directed)
        openers_note(&asked->openers, packet, how);
    if (packet->fragment || (how->segmented && !is_tcp) || !data_of(packet, how, &data))
        is_read = false;
    else if (is_tcp)
        is_read = learn_segment(asked, compiled, packet, data, how, output);
    else
        learn_message(asked, compiled, packet, &data, how, output);
    if (!is_read && is_servers)
        count(output, TEACH_UNREADABLE);
}
