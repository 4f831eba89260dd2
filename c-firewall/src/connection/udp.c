// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/udp.h"

#include <stddef.h>
#include <string.h>

#include "connection/checksum.h"
#include "connection/direction.h"
#include "connection/ids.h"
#include "connection/lifetime.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/dns.h"
#include "names/hello.h"
#include "names/quic.h"

enum {
    DNS_PORT = 53, // port of DNS servers
    // Number of bytes of a datagram that show whether it begins with a long header, and which
    // version it has.
    HEADER_BYTES = 5,
    PACKETS_MAX = 8, // maximum number of QUIC packets read in a datagram
    // Maximum number of QUIC packets read in one packet of several datagrams (UDP_MAX_SEGMENTS of
    // linux/udp.h was 64, and is 128 in newer kernels).
    SEGMENTED_PACKETS_MAX = 64,
    LONG_HEADER = 0x80,
};

/// Parsed UDP datagram, or several datagrams that the kernel has joined to one packet.
struct datagram {
    struct connection_key key;
    uint64_t hash; // hash of the key in the table; set by connection_udp_follow
    bool is_low;   // true if the datagram comes from the lower end (by address and port)
    uint16_t source_port;
    uint16_t destination_port;
    const uint8_t *data;
    uint32_t captured; // length of the copied part of the data
    uint32_t length;   // length of the datagram's data in bytes, copied or not
    struct connection_input input;
    uint64_t now_ns;
};

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

/// Parses a packet's UDP header. Returns false if the header was not copied or is malformed. The
/// length in the header limits the data. Only in a packet with several datagrams (GSO), a length
/// that is too short is ignored, because the kernel sends all bytes (__udp_gso_segment).
static bool datagram_of(const struct packet *packet, const struct connection_input *input,
                        struct datagram *datagram) {
    const uint32_t start = packet->l4_offset;
    const uint32_t available = packet->end > start ? packet->end - start : 0;
    const uint8_t *header = packet->bytes + start;
    uint32_t told, copied;

    if (start > packet->captured || packet->captured - start < PACKET_UDP_HEADER_BYTES)
        return false;
    copied = packet->captured - start - PACKET_UDP_HEADER_BYTES;
    told = (uint32_t)(header[PACKET_UDP_LENGTH_OFFSET] << 8 | header[PACKET_UDP_LENGTH_OFFSET + 1]);
    if (told == 0 || (input->segmented && told < available))
        told = available; // 0 means that the length does not fit into the field
    if (told < PACKET_UDP_HEADER_BYTES || told > available)
        return false;
    told -= PACKET_UDP_HEADER_BYTES;
    *datagram = (struct datagram){
        .source_port = packet->source_port,
        .destination_port = packet->destination_port,
        .data = header + PACKET_UDP_HEADER_BYTES,
        .captured = copied < told ? copied : told,
        .length = told,
        .input = *input,
        .now_ns = input->now_ns,
    };
    datagram->is_low = connection_table_key(packet, &datagram->key);
    return true;
}

/// Returns the destination connection id of a packet.
static const uint8_t *id_of(const struct datagram *datagram,
                            const struct names_quic_header *header) {
    return datagram->data + header->connection;
}

/// Stores the keys that decrypt a client's Initial packets, and the connection id that they are
/// derived from. The previous id is given up.
static void set_keys(struct connections *connections, uint32_t slot,
                     const struct names_quic_keys *keys, const struct datagram *datagram,
                     const struct names_quic_header *header) {
    connection_ids_bury(&connections->table, slot, datagram->now_ns);
    connection_ids_remove(&connections->table, slot);
    connection_ids_add(&connections->table, slot, id_of(datagram, header),
                       header->connection_bytes);
    at(connections, slot)->keys = *keys;
}

/// Decrypts an Initial packet of a connection that is followed. Tries the connection's keys or, if
/// they are for another QUIC version (RFC 9368), keys derived for the packet's version from the
/// connection's id. Then tries keys from the packet's own connection id, which a client uses after
/// Retry.
/// - is_others: true if the packet's connection id belongs to another connection, or was given up
///   or forgotten recently. Then keys from this id can decrypt the packet, but are not stored.
/// - plain: out: the packet's frames.
/// - Returns the number of bytes of the frames; 0 if the packet can't be decrypted.
static uint32_t open_known(struct connections *connections, uint32_t slot,
                           const struct datagram *datagram, const struct names_quic_header *header,
                           bool is_others, uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    const struct names_quic_opener *opener = &connections->opener;
    struct connection *connection = at(connections, slot);
    struct names_quic_keys keys = connection->keys;
    uint32_t bytes;

    if (keys.version != header->version) {
        struct names_quic_header of_id = *header;

        of_id.connection = 0;
        of_id.connection_bytes = connection->id_bytes;
        keys = names_quic_derive(opener, connection->id, &of_id);
    }
    bytes = names_quic_open(opener, &keys, datagram->data, header, plain);
    if (bytes > 0) {
        if (connection->keys.version == keys.version)
            connection->keys = keys;
        return bytes;
    }
    keys = names_quic_derive(opener, datagram->data, header);
    bytes = names_quic_open(opener, &keys, datagram->data, header, plain);
    if (bytes > 0 && !is_others)
        set_keys(connections, slot, &keys, datagram, header);
    return bytes;
}

/// Decrypts an Initial packet whose ends have no followed connection, and begins to follow the
/// connection.
/// - is_others: true if the packet's connection id belongs to another connection, or was given up
///   or forgotten recently. Then the packet's connection is not followed, unless a connection
///   between its ends was forgotten recently, which makes it unreadable.
/// - plain: out: the packet's frames.
/// - slot: out: slot of the connection, if it is followed.
/// - Returns the number of bytes of the frames; 0 if the connection is not followed.
static uint32_t open_first(struct connections *connections, const struct datagram *datagram,
                           const struct names_quic_header *header, bool is_others,
                           uint8_t plain[static NAMES_HELLO_BYTES_MAX], uint32_t *slot) {
    const struct names_quic_opener *opener = &connections->opener;
    struct names_quic_keys keys = names_quic_derive(opener, datagram->data, header);
    const uint32_t bytes = names_quic_open(opener, &keys, datagram->data, header, plain);
    struct connection *connection;
    bool is_buried;

    if (bytes == 0)
        return 0;
    is_buried = connection_table_is_buried(&connections->table, datagram->hash, datagram->now_ns);
    if (is_others && !is_buried)
        return 0;
    *slot = lifetime_open(connections, &datagram->key, datagram->hash, datagram->is_low,
                          CONNECTION_SHOWING, datagram->now_ns);
    connection = at(connections, *slot);
    connection->is_udp = true;
    direction_bind(connection, &datagram->input);
    set_keys(connections, *slot, &keys, datagram, header);
    if (is_buried)
        lifetime_make_unreadable(connections, *slot, CONNECTION_AMBIGUOUS, datagram->now_ns);
    return bytes;
}

/// Stores the bytes of a CRYPTO frame. Returns false if the stored bytes were freed, so that the
/// new bytes can't be compared with them.
static bool store_crypto(struct connections *connections, uint32_t slot, uint64_t offset,
                         const uint8_t *bytes, uint32_t length, uint64_t now_ns) {
    const struct connection *connection = at(connections, slot);
    enum stream_put put = STREAM_GAPS;

    if (connection->evasion || connection->names.state == NAMES_UNREADABLE)
        return true;
    if (connection->stream.let_go)
        return false;
    if (offset + length <= STREAM_BYTES_MAX)
        put = lifetime_store(connections, slot, (uint32_t)offset, bytes, length, now_ns);
    if (put != STREAM_KEPT)
        lifetime_refuse(connections, slot, put, now_ns);
    return true;
}

/// Makes a connection's names unreadable, even if they were already known.
static void give_up(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    at(connections, slot)->names.state = NAMES_UNDECIDED;
    lifetime_make_unreadable(connections, slot, CONNECTION_PARSE, now_ns);
}

/// Reads the gathered bytes after the first ClientHello of a connection: a second ClientHello, with
/// which the client responds to HelloRetryRequest (RFC 8446, section 4.1.4). Different names in it
/// are an evasion, because servers use them, too.
/// - end: end of the gathered bytes.
static void parse_second(struct connections *connections, uint32_t slot, uint32_t end,
                         uint64_t now_ns) {
    const uint8_t *bytes = connections->gathered;
    uint32_t place = 0;

    for (;;) {
        struct names again;

        place += names_hello_length(bytes + place, end - place);
        if (place >= end)
            return;
        switch (names_hello_parse(bytes + place, end - place, NAMES_QUIC, &again)) {
        case NAMES_KNOWN:
            if (names_hello_is_same(&at(connections, slot)->names, &again))
                break;
            lifetime_deny_evasion(connections, slot, now_ns);
            return;
        case NAMES_UNDECIDED:
            if (end >= STREAM_BYTES_MAX)
                give_up(connections, slot, now_ns);
            return;
        default:
            give_up(connections, slot, now_ns);
            return;
        }
    }
}

/// Reads the available bytes of a connection's ClientHello, and the bytes after it.
static void parse(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct connection *connection = at(connections, slot);
    const uint32_t end = stream_prefix(&connection->stream);
    stream_gather(&connection->stream, &connections->pool, 0, end, connections->gathered);
    if (connection->names.state == NAMES_UNDECIDED) {
        switch (names_hello_parse(connections->gathered, end, NAMES_QUIC, &connection->names)) {
        case NAMES_KNOWN:
            lifetime_decide(connections, slot, end, now_ns);
            break;
        case NAMES_UNDECIDED:
            if (end >= STREAM_BYTES_MAX)
                give_up(connections, slot, now_ns);
            return;
        default:
            give_up(connections, slot, now_ns);
            return;
        }
    }
    parse_second(connections, slot, end, now_ns);
}

/// Reads the frames of an Initial packet. Returns false if a frame is unreadable.
static bool follow_frames(struct connections *connections, uint32_t slot, const uint8_t *plain,
                          uint32_t length, uint64_t now_ns) {
    const struct connection *connection = at(connections, slot);
    const uint32_t before = stream_prefix(&connection->stream);
    bool is_read = true;
    uint32_t place = 0;

    while (place < length && is_read) {
        const struct names_quic_frame frame = names_quic_frame(plain, length, place);

        if (frame.kind == NAMES_QUIC_FRAME_CRYPTO) {
            is_read = store_crypto(connections, slot, frame.offset, plain + frame.data,
                                   frame.data_bytes, now_ns);
        }
        is_read = is_read && frame.kind != NAMES_QUIC_FRAME_BAD && frame.next > place;
        place = frame.next;
    }
    if (stream_prefix(&connection->stream) > before &&
        connection->names.state != NAMES_UNREADABLE && !connection->evasion)
        parse(connections, slot, now_ns);
    return is_read;
}

/// Returns the possible start of the next packet in a packet of several datagrams (UDP_SEGMENT):
/// the next byte that looks like a long header of a supported version; the end if there is none.
/// The kernel does not report the borders, and the length in an earlier packet may be invalid for
/// its receiver.
static uint32_t next_packet(const uint8_t *data, uint32_t length, uint32_t place) {
    for (; place < length && length - place >= HEADER_BYTES; place++) {
        if (data[place] >= LONG_HEADER && names_quic_is_understood(be32(data + place + 1)))
            return place;
    }
    return length;
}

/// Returns the maximum number of QUIC packets that are read in a datagram.
static uint32_t packets_max(bool segmented) {
    return segmented ? SEGMENTED_PACKETS_MAX : PACKETS_MAX;
}

/// Returns the possible start of a datagram's first packet.
static uint32_t first_packet(const struct datagram *datagram, bool segmented) {
    return segmented ? next_packet(datagram->data, datagram->captured, 0) : 0;
}

/// Returns the offset at which the next packet may begin, after the packet with a given header.
static uint32_t packet_behind(const struct datagram *datagram, bool segmented,
                              const struct names_quic_header *header) {
    return segmented ? next_packet(datagram->data, datagram->captured, header->start + 1)
                     : header->end;
}

/// Returns true if a datagram has a Handshake packet.
static bool has_handshake(const struct datagram *datagram, bool segmented) {
    uint32_t place = first_packet(datagram, segmented);

    for (uint32_t i = 0; i < packets_max(segmented); i++) {
        const struct names_quic_header header =
            names_quic_header(datagram->data, datagram->captured, place);

        place = packet_behind(datagram, segmented, &header);
        if (header.kind == NAMES_QUIC_HANDSHAKE || place >= datagram->captured)
            return header.kind == NAMES_QUIC_HANDSHAKE;
    }
    return false;
}

/// Reads an Initial packet. If its connection is not followed, begins to follow it. Returns false
/// if the packet is unreadable, or if its connection id belongs to another connection, or was given
/// up or forgotten recently.
/// - slot: in/out: slot of the packet's connection.
static bool follow_initial(struct connections *connections, uint32_t *slot,
                           const struct datagram *datagram, const struct names_quic_header *header,
                           uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    const uint64_t now_ns = datagram->now_ns;
    const bool is_others = connection_ids_is_taken(&connections->table, id_of(datagram, header),
                                                   header->connection_bytes, *slot, now_ns);
    const uint32_t bytes = *slot == CONNECTION_SLOT_NONE
                               ? open_first(connections, datagram, header, is_others, plain, slot)
                               : open_known(connections, *slot, datagram, header, is_others, plain);

    return bytes > 0 && follow_frames(connections, *slot, plain, bytes, now_ns) && !is_others;
}

/// Reads the packets of a client's datagram. Returns false if a packet is unreadable or there are
/// too many packets.
/// - slot: in/out: slot of the datagram's connection.
static bool follow_packets(struct connections *connections, uint32_t *slot,
                           const struct datagram *datagram, bool segmented,
                           uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    bool is_read = true;
    uint32_t place = first_packet(datagram, segmented);

    for (uint32_t i = 0; i < packets_max(segmented); i++) {
        const struct names_quic_header header =
            names_quic_header(datagram->data, datagram->captured, place);

        place = packet_behind(datagram, segmented, &header);
        if (header.kind == NAMES_QUIC_INITIAL &&
            !follow_initial(connections, slot, datagram, &header, plain))
            is_read = false;
        is_read = is_read && header.kind != NAMES_QUIC_BAD && header.kind != NAMES_QUIC_UNKNOWN;
        if (place >= datagram->captured)
            return is_read;
    }
    return false;
}

/// Handles a client's QUIC datagram.
static struct followed go_on(struct connections *connections, uint32_t slot,
                             const struct datagram *datagram, bool segmented) {
    const bool is_read =
        follow_packets(connections, &slot, datagram, segmented, connections->plain);

    if (slot == CONNECTION_SLOT_NONE) {
        return is_read ? lifetime_packet_nameless(connections)
                       : lifetime_packet_unreadable(connections, CONNECTION_PARSE);
    }
    lifetime_touch(connections, slot, datagram->now_ns);
    if (is_read || at(connections, slot)->evasion ||
        at(connections, slot)->names.state == NAMES_UNREADABLE)
        return lifetime_packet_names(connections, slot);
    return lifetime_packet_unreadable(connections, CONNECTION_PARSE);
}

/// Handles a DNS query, which is independent of other queries. A packet of several datagrams is
/// unreadable, because its queries can't be separated.
static struct followed ask(struct connections *connections, const struct datagram *datagram,
                           bool segmented) {
    if (segmented ||
        names_dns_query(datagram->data, datagram->captured, &connections->alone) != NAMES_KNOWN)
        return lifetime_packet_unreadable(connections, CONNECTION_PARSE);
    connections->counts.decided[connections->alone.protocol]++;
    return (struct followed){FOLLOWED_NAMES, CONNECTION_SLOT_NONE};
}

/// Handles a datagram whose content is not read. On a followed connection, a client's datagram with
/// a long header of an unsupported version is unreadable, since it may begin another connection.
/// The followed connection keeps its names.
static struct followed pass(struct connections *connections, uint32_t slot,
                            const struct datagram *datagram, enum names_quic_kind kind) {
    if (kind == NAMES_QUIC_UNKNOWN && datagram->source_port != DNS_PORT)
        connections->counts.unknown_version++;
    if (kind == NAMES_QUIC_UNKNOWN && slot != CONNECTION_SLOT_NONE)
        return lifetime_packet_unreadable(connections, CONNECTION_PARSE);
    if (slot == CONNECTION_SLOT_NONE)
        return lifetime_packet_nameless(connections);
    lifetime_touch(connections, slot, datagram->now_ns);
    return lifetime_packet_names(connections, slot);
}

/// Returns true if a datagram comes in by another interface than its sender's, or if a server's
/// datagram leaves by another interface than the client's.
static bool is_forged(const struct connection *connection, const struct datagram *datagram) {
    const uint32_t client = connection->client_interface, server = connection->server_interface;

    return connection->client_low == datagram->is_low
               ? direction_is_foreign(connection, datagram->is_low, &datagram->input)
               : !direction_answers(client, server, &datagram->input);
}

/// Returns true if a datagram of either end shows that the server has a complete ClientHello of
/// which the firewall lacks a part.
static bool is_answered(struct connections *connections, uint32_t slot,
                        const struct datagram *datagram, bool segmented) {
    return slot != CONNECTION_SLOT_NONE && at(connections, slot)->names.state == NAMES_UNDECIDED &&
           has_handshake(datagram, segmented);
}

/// Handles a server's datagram, and stores the server's interface if it is unknown. If the names
/// are known, a Handshake packet shows that the server has the complete ClientHello (RFC 9001,
/// section 4.1.4).
static void hear(struct connections *connections, uint32_t slot, const struct datagram *datagram,
                 bool segmented) {
    struct connection *connection = at(connections, slot);

    direction_bind_server(connection, &datagram->input);
    if (connection->names.state == NAMES_KNOWN && !connection->accepted)
        connection->accepted = has_handshake(datagram, segmented);
}

struct followed connection_udp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input) {
    struct datagram datagram;
    bool is_quic, is_query, is_cut;
    enum names_quic_kind kind;
    uint32_t slot;

    if (!datagram_of(packet, input, &datagram))
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    connections->is_low = datagram.is_low;
    datagram.hash = connection_table_hash(&connections->table, &datagram.key);
    slot = connection_table_find(&connections->table, &datagram.key, datagram.hash);
    if (slot != CONNECTION_SLOT_NONE && lifetime_is_denied(connections, slot, input->generation)) {
        lifetime_touch(connections, slot, input->now_ns);
        return (struct followed){FOLLOWED_DENIED, slot};
    }
    if (slot != CONNECTION_SLOT_NONE && is_forged(at(connections, slot), &datagram))
        return lifetime_packet_unreadable(connections, CONNECTION_INTERFACE);
    if (is_answered(connections, slot, &datagram, input->segmented))
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, input->now_ns);
    is_query = datagram.destination_port == DNS_PORT;
    if (slot != CONNECTION_SLOT_NONE && at(connections, slot)->client_low != datagram.is_low &&
        !is_query) {
        hear(connections, slot, &datagram, input->segmented);
        return pass(connections, slot, &datagram, NAMES_QUIC_SHORT);
    }
    kind = names_quic_header(datagram.data, datagram.captured, 0).kind;
    is_quic = input->segmented || (kind != NAMES_QUIC_SHORT && kind != NAMES_QUIC_UNKNOWN);
    is_cut = datagram.captured < datagram.length;
    if (!is_quic && !is_query && !(is_cut && datagram.captured < HEADER_BYTES))
        return pass(connections, slot, &datagram, kind);
    if (is_cut)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    if (input->checksum == CONNECTION_CHECKSUM_UNVERIFIED &&
        !checksum_is_right(packet, datagram.length + PACKET_UDP_HEADER_BYTES))
        return lifetime_packet_unreadable(connections, CONNECTION_CHECKSUM);
    return is_query ? ask(connections, &datagram, input->segmented)
                    : go_on(connections, slot, &datagram, input->segmented);
}

bool connection_udp_decides(const struct packet *packet) {
    const uint32_t start = packet->l4_offset + PACKET_UDP_HEADER_BYTES;
    const uint32_t length = packet->captured > start ? packet->captured - start : 0;

    return packet->destination_port == DNS_PORT ||
           names_quic_is_near(packet->bytes + start, length);
}
