// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/tcp.h"

#include <stddef.h>

#include "connection/checksum.h"
#include "connection/direction.h"
#include "connection/lifetime.h"
#include "connection/opening.h"
#include "connection/queries.h"
#include "connection/requests.h"
#include "connection/retry.h"
#include "connection/segment.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/client.h"

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

/// Returns the result for a packet of a connection with known names. The bytes from offset
/// STREAM_BYTES_MAX on are not stored: if they may show another name, the packet is unreadable.
/// - end: offset in the stream after the packet's last byte.
/// - followed: result according to the stored bytes.
static struct followed check_end(struct connections *connections, uint32_t slot, uint32_t end,
                                 struct followed followed) {
    const struct connection *connection;
    bool is_body;

    if (end <= STREAM_BYTES_MAX || followed.kind == FOLLOWED_DENIED)
        return followed;
    connection = at(connections, slot);
    is_body = end <= connection->requests.next;
    if (!connection->may_retry && (!requests_go_on(connection) || is_body))
        return followed;
    connections->queries.slot = CONNECTION_SLOT_NONE;
    return lifetime_packet_unreadable(connections, CONNECTION_GAPS);
}

/// Compares repeated and late bytes with the bytes that the names were read from; different bytes
/// are an evasion. If a server may request another ClientHello, the bytes after the first
/// ClientHello are read as well.
static struct followed follow_known(struct connections *connections, uint32_t slot,
                                    const struct segment *segment, uint32_t offset,
                                    const uint8_t *data, uint32_t captured, uint32_t length) {
    struct connection *connection = at(connections, slot);
    const struct stream *stream = &connection->stream;
    const bool may_retry = connection->may_retry;
    const uint32_t limit = may_retry ? (uint32_t)STREAM_BYTES_MAX : stream->decided;
    const uint32_t needed = offset < limit ? min(length, limit - offset) : 0;
    const uint32_t before = stream_prefix(stream);
    struct followed followed;
    enum stream_put put;

    if (opening_is_finished(connection) || (!may_retry && needed == 0))
        return lifetime_packet_names(connections, slot);
    if (stream->let_go)
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    if (captured < needed)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    put = lifetime_store(connections, slot, offset, data, needed, segment->now_ns);
    if (put != STREAM_KEPT)
        return lifetime_refuse(connections, slot, put, segment->now_ns);
    followed = may_retry && stream_prefix(stream) > before
                   ? retry_parse(connections, slot, segment->now_ns)
                   : lifetime_packet_names(connections, slot);
    return check_end(connections, slot, offset + length, followed);
}

/// Parses a client's names from the bytes of its stream before the first gap.
/// - data: bytes of the latest segment; offset: their offset in the stream.
static enum names_state parse(struct connections *connections, uint32_t slot, uint32_t offset,
                              const uint8_t *data, uint32_t length) {
    struct connection *connection = at(connections, slot);
    const uint32_t end = stream_prefix(&connection->stream);
    const bool whole = end >= STREAM_BYTES_MAX;

    if (offset == 0 && length == end)
        return names_client_parse(data, length, whole, connections->scratch, &connection->progress,
                                  &connection->names);
    stream_gather(&connection->stream, &connections->pool, 0, end, connections->gathered);
    return names_client_parse(connections->gathered, end, whole, connections->scratch,
                              &connection->progress, &connection->names);
}

/// Returns true if the latest segment can't decide an undecided connection, so that its stream need
/// not be parsed.
/// - before: number of bytes before the first gap, without the latest segment.
/// - data: bytes of the latest segment; offset: their offset in the stream.
static bool waits(struct connections *connections, uint32_t slot, uint32_t before, uint32_t offset,
                  const uint8_t *data, uint32_t length) {
    const struct connection *connection = at(connections, slot);
    const uint32_t end = stream_prefix(&connection->stream);

    if (end >= STREAM_BYTES_MAX || offset > before || offset + length != end)
        return false;
    return names_client_waits(&connection->names, &connection->progress, data + (before - offset),
                              end - before, end);
}

/// Records that a client has sent its names.
/// - place: end of the bytes that the names were read from, as an offset in the stream.
static struct followed decide(struct connections *connections, uint32_t slot, uint32_t place,
                              uint64_t now_ns) {
    struct connection *connection = at(connections, slot);

    lifetime_decide(connections, slot, place, now_ns);
    connection->progress = (struct names_progress){0};
    connection->may_retry = retry_can(&connection->names);
    if (!connection->may_retry)
        return lifetime_packet_names(connections, slot);
    // The part of the server's bytes that answers the ClientHello is unknown.
    if (connection->server_end != connection->server_begun)
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, now_ns);
    return retry_parse(connections, slot, now_ns);
}

/// Reads the bytes of a client that has not sent its names completely.
static struct followed follow_undecided(struct connections *connections, uint32_t slot,
                                        const struct segment *segment, uint32_t offset,
                                        const uint8_t *data, uint32_t captured, uint32_t length) {
    const uint32_t needed = offset < STREAM_BYTES_MAX ? min(length, STREAM_BYTES_MAX - offset) : 0;
    enum names_state state = NAMES_UNDECIDED;
    struct connection *connection = at(connections, slot);
    uint32_t before, after;
    enum stream_put put;

    if (needed == 0)
        return lifetime_packet_unreadable(connections, CONNECTION_GAPS);
    if (captured < needed)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    lifetime_start_showing(connections, slot, segment->now_ns);
    before = stream_prefix(&connection->stream);
    put = lifetime_store(connections, slot, offset, data, needed, segment->now_ns);
    if (put != STREAM_KEPT)
        return lifetime_refuse(connections, slot, put, segment->now_ns);
    after = stream_prefix(&connection->stream);
    if (after > before && !waits(connections, slot, before, offset, data, needed))
        state = parse(connections, slot, offset, data, needed);
    if (state == NAMES_KNOWN) {
        const struct followed followed = connection->names.protocol == NAMES_HTTP
                                             ? requests_begin(connections, slot, segment)
                                             : decide(connections, slot, after, segment->now_ns);
        return check_end(connections, slot, offset + length, followed);
    }
    if (state != NAMES_UNDECIDED) {
        connection->names.state = NAMES_UNDECIDED;
        return lifetime_make_unreadable(connections, slot, CONNECTION_PARSE, segment->now_ns);
    }
    if (needed < length)
        return lifetime_packet_unreadable(connections, CONNECTION_GAPS);
    return lifetime_packet_names(connections, slot);
}

/// Returns true if the kernel writes the segment's checksum later, and the firewall can't return
/// the packet with its checksum, because it was not copied whole. False for combined packets, and
/// for packets of this host or of an unknown interface: with a large MTU, as that of the loopback
/// device, this host's TCP sends such packets all the time.
static bool is_changing(const struct segment *segment) {
    const struct connection_input *input = &segment->input;

    return segment->captured < segment->length && !input->segmented &&
           input->checksum == CONNECTION_CHECKSUM_NOT_READY &&
           input->source_interface != CONNECTION_INTERFACE_HOST &&
           input->source_interface != CONNECTION_INTERFACE_UNKNOWN;
}

/// Reads a client's data. Bytes before the start of the stream are skipped.
/// - sequence: sequence number of the data's first byte.
static struct followed follow_data(struct connections *connections, uint32_t slot,
                                   const struct segment *segment, uint32_t sequence) {
    struct connection *connection = at(connections, slot);
    uint32_t offset, skipped, captured, length;
    const uint8_t *data;

    if (requests_are_lost(connection, &segment->input))
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
    if (connection->is_dns)
        queries_rebase(connections, slot, segment->now_ns);
    else if (requests_go_on(connection))
        requests_rebase(connections, slot, segment->now_ns);
    offset = sequence - connection->stream.base;
    skipped = offset > INT32_MAX ? min(0 - offset, segment->length) : 0;
    offset = offset > INT32_MAX ? 0 : offset;
    length = segment->length - skipped;
    captured = segment->captured - min(skipped, segment->captured);
    data = segment->data + min(skipped, segment->captured);
    if (connection->names.state == NAMES_UNREADABLE || length == 0)
        return lifetime_packet_names(connections, slot);
    if (connection->is_dns)
        return queries_follow(connections, slot, offset, data, captured, length, segment->now_ns);
    if (requests_go_on(connection))
        return requests_follow(connections, slot, offset, data, captured, length, segment->now_ns);
    if (connection->names.state == NAMES_KNOWN)
        return follow_known(connections, slot, segment, offset, data, captured, length);
    return follow_undecided(connections, slot, segment, offset, data, captured, length);
}

/// Reads a server's bytes, and its acknowledgement of the client's bytes.
static struct followed hear(struct connections *connections, uint32_t slot,
                            const struct segment *segment) {
    struct connection *connection = at(connections, slot);
    struct stream *stream = &connection->stream;
    const uint32_t distance = segment->acknowledged - stream->base;
    const bool is_ahead = distance > stream->acked && distance <= INT32_MAX;

    if (!opening_hear(connection, segment))
        return lifetime_packet_names(connections, slot);
    if (connection->may_retry)
        retry_hear(connection, segment);
    if (connection->may_switch)
        requests_hear(connection, segment);
    if ((segment->flags & SEGMENT_ACK) && is_ahead)
        stream->acked = distance;
    if (requests_go_on(connection))
        requests_rebase(connections, slot, segment->now_ns);
    else
        retry_settle(connections, slot, segment->now_ns);
    return lifetime_packet_names(connections, slot);
}

/// Handles a segment without SYN of a connection that is not denied.
static struct followed go_on(struct connections *connections, uint32_t slot,
                             const struct segment *segment) {
    const struct connection *connection = at(connections, slot);
    bool is_over, is_acknowledging;

    if (direction_is_foreign(connection, segment->is_low, &segment->input))
        return lifetime_packet_unreadable(connections, CONNECTION_INTERFACE);
    lifetime_touch(connections, slot, segment->now_ns);
    if (segment->flags & (SEGMENT_FIN | SEGMENT_RST))
        lifetime_close(connections, slot, segment->now_ns);
    if (!segment_is_clients(segment, connection))
        return hear(connections, slot, segment);
    is_over = opening_is_finished(connection) && !requests_go_on(connection);
    // The receiver removes the urgent byte from the stream (RFC 6093), and the position of this
    // byte is uncertain.
    if ((segment->flags & SEGMENT_URG) && (!is_over || connection->is_dns))
        return lifetime_make_unreadable(connections, slot, CONNECTION_AMBIGUOUS, segment->now_ns);
    is_acknowledging = connection->confirmed && opening_is_acknowledging(connection, segment);
    if (segment->length == 0) {
        if (is_acknowledging)
            lifetime_establish(connections, slot, segment->now_ns);
        return lifetime_packet_names(connections, slot);
    }
    if (!is_over && !is_acknowledging)
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    if (is_changing(segment) && (!is_over || connection->is_dns))
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    return follow_data(connections, slot, segment, segment->sequence);
}

/// Returns true if a segment needs a correct checksum: it has SYN, FIN, RST or URG, or its
/// connection is not in the list Known, or may show more names. The receiver ignores a segment with
/// an incorrect checksum.
static bool is_noted(struct connections *connections, uint32_t slot,
                     const struct segment *segment) {
    const struct connection *connection = at(connections, slot);
    const bool is_known =
        connection->list == CONNECTION_KNOWN && !connection->is_dns && !requests_go_on(connection);

    return (segment->flags & (SEGMENT_SYN | SEGMENT_FIN | SEGMENT_RST | SEGMENT_URG)) ||
           !is_known || connection->may_retry;
}

/// Handles a segment of a denied connection. Segments without data pass in two cases. While a new
/// SYN is pending, RSTs and the server's segments pass: the server's ACK contains the number that
/// it expects, and the client answers it with a RST that ends the old connection. After both ends
/// are notified, the RSTs that notify them pass, if they come through the queue.
static struct followed denied(struct connections *connections, uint32_t slot,
                              const struct segment *segment) {
    const struct connection *connection = at(connections, slot);
    const bool is_servers = !segment_is_clients(segment, connection);
    bool passes = false;

    if (!(segment->flags & (SEGMENT_SYN | SEGMENT_FIN)))
        passes = segment->flags & SEGMENT_RST ? connection->is_reset || connection->pending
                                              : connection->pending && is_servers;
    if (passes && segment->length == 0)
        return lifetime_packet_undecided(connections);
    if (!(segment->flags & SEGMENT_SYN))
        lifetime_touch(connections, slot, segment->now_ns);
    return (struct followed){FOLLOWED_DENIED, slot};
}

/// Handles a SYN without ACK.
static struct followed open(struct connections *connections, uint32_t slot,
                            const struct segment *segment) {
    struct followed followed;

    if (is_changing(segment))
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    if (slot == CONNECTION_SLOT_NONE)
        slot = opening_begin(connections, segment);
    else if (opening_begin_again(connections, slot, segment, &followed))
        return followed;
    if (segment->length > 0)
        at(connections, slot)->syn_data = true;
    return follow_data(connections, slot, segment, segment->sequence + 1);
}

struct followed connection_tcp_follow(struct connections *connections, const struct packet *packet,
                                      const struct connection_input *input) {
    struct segment segment;
    bool is_denied;
    uint32_t slot;

    if (!segment_of(packet, input, &segment))
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    connections->is_low = segment.is_low;
    segment.hash = connection_table_hash(&connections->table, &segment.key);
    slot = connection_table_find(&connections->table, &segment.key, segment.hash);
    is_denied =
        slot != CONNECTION_SLOT_NONE && lifetime_is_denied(connections, slot, input->generation);
    if (is_denied && !opening_restarts(at(connections, slot), &segment))
        return denied(connections, slot, &segment);
    if (input->checksum == CONNECTION_CHECKSUM_UNVERIFIED &&
        is_noted(connections, slot, &segment) &&
        !checksum_is_right(packet, packet->end - packet->l4_offset))
        return lifetime_packet_unreadable(connections, CONNECTION_CHECKSUM);
    // With Multipath TCP a server may read bytes that arrive over other connections.
    if (segment.is_multipath || ((segment.flags & SEGMENT_SYN) &&
                                 (segment.flags & (SEGMENT_FIN | SEGMENT_RST | SEGMENT_URG))))
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    // This file's own function, not open(2).
    if ((segment.flags & (SEGMENT_SYN | SEGMENT_ACK)) == SEGMENT_SYN)
        // NOLINTNEXTLINE(clang-analyzer-unix.API)
        return open(connections, slot, &segment);
    if (slot == CONNECTION_SLOT_NONE)
        return lifetime_packet_unreadable(connections, CONNECTION_MIDSTREAM);
    return segment.flags & SEGMENT_SYN ? opening_answer(connections, slot, &segment)
                                       : go_on(connections, slot, &segment);
}
