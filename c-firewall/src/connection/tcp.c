// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/tcp.h"

#include <stddef.h>

#include "connection/checksum.h"
#include "connection/direction.h"
#include "connection/lifetime.h"
#include "connection/queries.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/client.h"

enum {
    FIN = 0x01,
    SYN = 0x02,
    RST = 0x04,
    ACK = 0x10,
    URG = 0x20,
    DNS_PORT = 53, // whose servers are asked by DNS
};

/// A segment.
struct segment {
    struct connection_key key;
    bool is_low; // it comes from the lower one of both ends
    uint16_t source_port;
    uint16_t destination_port;
    uint8_t flags;
    uint32_t sequence;
    uint32_t acknowledged;
    const uint8_t *data;
    uint32_t captured; // what was copied of its data
    uint32_t length;   // of its data
    struct connection_input input;
    uint64_t now_ns;
};

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

/// Reads a packet's header; false if it was not copied or is malformed.
static bool segment_of(const struct packet *packet, const struct connection_input *input,
                       struct segment *segment) {
    const uint32_t start = packet->l4_offset;
    const uint32_t available = packet->end > start ? packet->end - start : 0;
    const uint8_t *header = packet->bytes + start;
    uint32_t header_bytes, copied;

    if (start > packet->captured || packet->captured - start < PACKET_TCP_HEADER_BYTES)
        return false;
    copied = packet->captured - start;
    header_bytes = (header[12] >> 4) * 4U;
    if (header_bytes < PACKET_TCP_HEADER_BYTES || header_bytes > available)
        return false;
    *segment = (struct segment){
        .source_port = packet->source_port,
        .destination_port = packet->destination_port,
        .flags = header[13],
        .sequence = be32(header + 4),
        .acknowledged = be32(header + 8),
        .data = header + min(header_bytes, copied),
        .captured = min(copied - min(header_bytes, copied), available - header_bytes),
        .length = available - header_bytes,
        .input = *input,
        .now_ns = input->now_ns,
    };
    segment->is_low = connection_table_key(packet, &segment->key);
    return true;
}

/// Whether the server has all of what was decided on.
static bool is_finished(struct connections *connections, uint32_t slot) {
    const struct connection *connection = at(connections, slot);

    return connection->names.state == NAMES_KNOWN &&
           connection->stream.acked >= connection->stream.decided;
}

/// Compares what comes again, or comes late, with what was decided on.
static struct followed take_known(struct connections *connections, uint32_t slot,
                                  const struct segment *segment, uint32_t offset,
                                  const uint8_t *data, uint32_t captured, uint32_t length) {
    const struct stream *stream = &at(connections, slot)->stream;
    const uint32_t needed = offset < stream->decided ? min(length, stream->decided - offset) : 0;
    enum stream_put put;

    if (needed == 0 || stream->acked >= stream->decided)
        return lifetime_named(connections, slot);
    if (stream->let_go)
        return lifetime_odd(connections, CONNECTION_AMBIGUOUS);
    if (captured < needed)
        return lifetime_odd(connections, CONNECTION_CUT);
    put = lifetime_keep(connections, slot, offset, data, needed, segment->now_ns);
    return put == STREAM_KEPT ? lifetime_named(connections, slot)
                              : lifetime_refuse(connections, slot, put, segment->now_ns);
}

/// Reads what is there of a stream without a gap.
/// - data: of the segment that came last, from its offset on.
static enum names_state read(struct connections *connections, uint32_t slot, uint32_t offset,
                             const uint8_t *data, uint32_t length) {
    struct connection *connection = at(connections, slot);
    const uint32_t end = stream_prefix(&connection->stream);
    const bool whole = end >= STREAM_BYTES_MAX;

    if (offset == 0 && length == end)
        return names_client_read(data, length, whole, connections->scratch, &connection->names);
    stream_gather(&connection->stream, &connections->pool, 0, end, connections->gathered);
    return names_client_read(connections->gathered, end, whole, connections->scratch,
                             &connection->names);
}

/// Takes in what a client sends that has not shown its names.
static struct followed take_undecided(struct connections *connections, uint32_t slot,
                                      const struct segment *segment, uint32_t offset,
                                      const uint8_t *data, uint32_t captured, uint32_t length) {
    const uint32_t needed = offset < STREAM_BYTES_MAX ? min(length, STREAM_BYTES_MAX - offset) : 0;
    enum names_state state = NAMES_UNDECIDED;
    struct connection *connection = at(connections, slot);
    uint32_t before, after;
    enum stream_put put;

    if (needed == 0)
        return lifetime_odd(connections, CONNECTION_GAPS);
    if (captured < needed)
        return lifetime_odd(connections, CONNECTION_CUT);
    before = stream_prefix(&connection->stream);
    lifetime_show(connections, slot, segment->now_ns);
    put = lifetime_keep(connections, slot, offset, data, needed, segment->now_ns);
    if (put != STREAM_KEPT)
        return lifetime_refuse(connections, slot, put, segment->now_ns);
    after = stream_prefix(&connection->stream);
    if (after > before)
        state = read(connections, slot, offset, data, needed);
    if (state == NAMES_KNOWN) {
        lifetime_decide(connections, slot, after, segment->now_ns);
    } else if (state != NAMES_UNDECIDED) {
        connection->names.state = NAMES_UNDECIDED;
        return lifetime_unreadable(connections, slot, CONNECTION_PARSE, segment->now_ns);
    } else if (needed < length) {
        return lifetime_odd(connections, CONNECTION_GAPS);
    }
    return lifetime_named(connections, slot);
}

/// Takes in a client's data. What lies before the stream's first byte is no part of it.
static struct followed take(struct connections *connections, uint32_t slot,
                            const struct segment *segment, uint32_t sequence) {
    struct connection *connection = at(connections, slot);
    uint32_t offset, skipped, captured, length;
    const uint8_t *data;

    if (connection->is_dns)
        queries_rebase(connections, slot, segment->now_ns);
    offset = sequence - connection->stream.base;
    skipped = offset > INT32_MAX ? min(0 - offset, segment->length) : 0;
    offset = offset > INT32_MAX ? 0 : offset;
    length = segment->length - skipped;
    captured = segment->captured - min(skipped, segment->captured);
    data = segment->data + min(skipped, segment->captured);
    if (connection->names.state == NAMES_UNREADABLE || length == 0)
        return lifetime_named(connections, slot);
    if (connection->is_dns)
        return queries_take(connections, slot, offset, data, captured, length, segment->now_ns);
    if (connection->names.state == NAMES_KNOWN)
        return take_known(connections, slot, segment, offset, data, captured, length);
    return take_undecided(connections, slot, segment, offset, data, captured, length);
}

/// A SYN of a connection that is not followed.
static struct followed begin(struct connections *connections, const struct segment *segment) {
    const uint32_t slot =
        lifetime_open(connections, &segment->key, CONNECTION_OPENING, segment->now_ns);
    struct connection *connection = at(connections, slot);

    connection->client_low = segment->is_low;
    connection->is_dns = segment->destination_port == DNS_PORT;
    connection->begun = segment->sequence + 1;
    connection->stream.base = connection->begun;
    direction_bind(connection, &segment->input);
    return take(connections, slot, segment, segment->sequence + 1);
}

/// A SYN of a connection that is followed: its first one again, or that of another connection,
/// which is none before the server has answered it.
static struct followed begin_again(struct connections *connections, uint32_t slot,
                                   const struct segment *segment) {
    struct connection *connection = at(connections, slot);
    const uint32_t base = segment->sequence + 1;

    if (segment->is_low == connection->client_low && base == connection->begun &&
        !direction_is_foreign(connection, segment->is_low, &segment->input))
        return take(connections, slot, segment, base);
    direction_bind_pending(connection, &segment->input);
    connection->pending = true;
    connection->pending_low = segment->is_low;
    connection->pending_base = base;
    return segment->length == 0 ? lifetime_fresh(connections)
                                : lifetime_odd(connections, CONNECTION_AMBIGUOUS);
}

/// A connection takes the place of another one between the same ends, since its SYN was answered.
static struct followed replace(struct connections *connections, uint32_t slot,
                               const struct segment *segment) {
    struct connection *connection = at(connections, slot);

    stream_release(&connection->stream, &connections->pool);
    connection->opened_ns = segment->now_ns;
    connection->begun = connection->pending_base;
    connection->stream = stream_make(connection->begun);
    connection->is_dns = segment->source_port == DNS_PORT;
    connection->client_low = connection->pending_low;
    direction_take_pending(connection, &segment->input);
    connection->pending = false;
    connection->confirmed = true;
    connection->closed = false;
    connection->cache = (struct connection_cache){0};
    connection->names = (struct names){.state = NAMES_UNDECIDED};
    connections->counts.opened++;
    connection_table_move_to(&connections->table, slot, CONNECTION_OPENING, segment->now_ns);
    return lifetime_named(connections, slot);
}

/// A server's answer to a SYN. One that answers another SYN than ours while it may still have our
/// connection makes it unknown which of both it has.
static struct followed answer(struct connections *connections, uint32_t slot,
                              const struct segment *segment) {
    const bool finished = is_finished(connections, slot);
    struct connection *connection = at(connections, slot);
    const uint32_t distance = segment->acknowledged - connection->begun;
    const bool is_pending = connection->pending && segment->is_low != connection->pending_low &&
                            segment->acknowledged == connection->pending_base &&
                            direction_answers_pending(connection, &segment->input);

    if (is_pending && (finished || !connection->confirmed))
        return replace(connections, slot, segment);
    if (segment->is_low == connection->client_low && !is_pending)
        return lifetime_odd(connections, CONNECTION_AMBIGUOUS);
    if (!is_pending && direction_is_foreign(connection, segment->is_low, &segment->input))
        return lifetime_odd(connections, CONNECTION_INTERFACE);
    if (!is_pending && (distance == 0 || distance <= stream_prefix(&connection->stream))) {
        connection->confirmed = true;
        direction_bind_server(connection, &segment->input);
        return lifetime_named(connections, slot);
    }
    if (finished)
        return lifetime_odd(connections, CONNECTION_AMBIGUOUS);
    return lifetime_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
}

/// What a server has of its client's bytes.
static void acknowledge(struct connections *connections, uint32_t slot,
                        const struct segment *segment) {
    struct connection *connection = at(connections, slot);
    struct stream *stream = &connection->stream;
    const uint32_t distance = segment->acknowledged - stream->base;
    const bool is_ahead = distance > stream->acked && distance <= INT32_MAX;

    if (!(segment->flags & ACK) || !connection->confirmed || !is_ahead)
        return;
    stream->acked = distance;
    if (stream->acked >= stream->decided && connection->list == CONNECTION_SETTLING &&
        !(connection->is_dns && stream_has_more(stream)))
        lifetime_settle(connections, slot, segment->now_ns);
}

/// A segment of a connection that is not refused.
static struct followed go_on(struct connections *connections, uint32_t slot,
                             const struct segment *segment) {
    const struct connection *connection = at(connections, slot);

    if (direction_is_foreign(connection, segment->is_low, &segment->input))
        return lifetime_odd(connections, CONNECTION_INTERFACE);
    lifetime_touch(connections, slot, segment->now_ns);
    if (segment->flags & (FIN | RST))
        lifetime_close(connections, slot, segment->now_ns);
    if (segment->is_low != connection->client_low) {
        acknowledge(connections, slot, segment);
        return lifetime_named(connections, slot);
    }
    // The receiver takes a byte out of the stream (RFC 6093), and which one isn't certain.
    if ((segment->flags & URG) && (!is_finished(connections, slot) || connection->is_dns))
        return lifetime_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
    if (segment->length == 0)
        return lifetime_named(connections, slot);
    if (!connection->confirmed)
        return lifetime_odd(connections, CONNECTION_AMBIGUOUS);
    return take(connections, slot, segment, segment->sequence);
}

/// Whether a segment says anything that is noted, so that it must be one that its receiver takes.
static bool is_noted(struct connections *connections, uint32_t slot,
                     const struct segment *segment) {
    const struct connection *connection = at(connections, slot);
    const bool is_known = connection->list == CONNECTION_KNOWN && !connection->is_dns;

    return (segment->flags & (SYN | FIN | RST | URG)) || !is_known;
}

bool connection_tcp_sequence(const struct packet *packet, uint32_t *sequence) {
    const struct connection_input input = {0};
    struct segment segment;

    if (!segment_of(packet, &input, &segment))
        return false;
    *sequence = segment.sequence;
    return true;
}

/// A segment of a connection that is denied. The RST by which its ends are told come by here, too,
/// where they are queued.
static struct followed denied(struct connections *connections, uint32_t slot,
                              const struct segment *segment) {
    lifetime_touch(connections, slot, segment->now_ns);
    if (at(connections, slot)->is_reset && (segment->flags & RST) && segment->length == 0)
        return lifetime_fresh(connections);
    return (struct followed){FOLLOWED_DENIED, slot};
}

struct followed connection_tcp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input) {
    struct segment segment;
    uint32_t slot;
    bool opens;

    if (!segment_of(packet, input, &segment))
        return lifetime_odd(connections, CONNECTION_CUT);
    slot = connection_table_find(&connections->table, &segment.key);
    if (slot != CONNECTION_SLOT_NONE && lifetime_is_denied(connections, slot, input->generation))
        return denied(connections, slot, &segment);
    if (input->checksum == CONNECTION_CHECKSUM_UNVERIFIED &&
        is_noted(connections, slot, &segment) &&
        !checksum_is_right(packet, packet->end - packet->l4_offset))
        return lifetime_odd(connections, CONNECTION_CHECKSUM);
    opens = (segment.flags & (SYN | ACK)) == SYN;
    if ((segment.flags & SYN) && (segment.flags & (FIN | RST | URG)))
        return lifetime_odd(connections, CONNECTION_AMBIGUOUS);
    if (slot == CONNECTION_SLOT_NONE) {
        return opens ? begin(connections, &segment)
                     : lifetime_odd(connections, CONNECTION_MIDSTREAM);
    }
    if (opens)
        return begin_again(connections, slot, &segment);
    return segment.flags & SYN ? answer(connections, slot, &segment)
                               : go_on(connections, slot, &segment);
}
