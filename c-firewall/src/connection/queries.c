// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/queries.h"

#include <stddef.h>

#include "connection/lifetime.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/dns.h"

enum {
    LENGTH_BYTES = 2, // length in bytes of the length field before a DNS message
    // Number of stored bytes of a stream above which queries that the server has acknowledged are
    // freed.
    TRIM_BYTES = STREAM_BYTES_MAX / 2,
};

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

/// Returns the length of the DNS message at an offset, including its length field; 0 if the message
/// is incomplete.
/// - place: offset of the message in `bytes`.
/// - end: end of the available bytes.
static uint32_t whole_at(const uint8_t *bytes, uint32_t place, uint32_t end) {
    uint32_t length;

    if (end - place < LENGTH_BYTES)
        return 0;
    length = LENGTH_BYTES + ((uint32_t)bytes[place] << 8 | bytes[place + 1]);
    return length <= end - place ? length : 0;
}

/// Copies the bytes of a stream, up to its first gap, to `gathered`. Returns their number.
static uint32_t gather(struct connections *connections, uint32_t slot) {
    const struct stream *stream = &at(connections, slot)->stream;
    const uint32_t end = stream_prefix(stream);

    stream_gather(stream, &connections->pool, 0, end, connections->gathered);
    return end;
}

/// Returns the end of the last DNS message that ends at or before an offset; 0 if there is none.
/// - place: offset in the gathered bytes.
/// - end: end of the gathered bytes.
static uint32_t border(const struct connections *connections, uint32_t place, uint32_t end) {
    uint32_t last = 0, bytes;

    while ((bytes = whole_at(connections->gathered, last, end)) > 0 && last + bytes <= place)
        last += bytes;
    return last;
}

/// Frees the stored queries that the server has acknowledged, if the stream has no gaps. The
/// remaining bytes need no additional memory.
static void trim(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct stream *stream = &at(connections, slot)->stream;
    const struct stream before = *stream;
    enum stream_put put;
    uint32_t end, first;

    if (before.span_count != 1)
        return;
    end = gather(connections, slot);
    first = border(connections, before.acked, end);
    if (first == 0)
        return;
    stream_release(stream, &connections->pool);
    *stream = stream_make(before.base + first);
    stream->decided = before.decided > first ? before.decided - first : 0;
    stream->ahead = before.ahead;
    put = stream_insert(stream, &connections->pool, 0, connections->gathered + first, end - first);
    stream->acked = before.acked - first;
    if (put != STREAM_KEPT)
        lifetime_make_unreadable(connections, slot, CONNECTION_POOL, now_ns);
}

void queries_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct stream *stream = &at(connections, slot)->stream;
    const uint32_t decided = stream->decided;
    uint32_t base, acked;

    if (decided == 0 || stream->acked < decided || stream_has_more(stream)) {
        if (stream_prefix(stream) > TRIM_BYTES)
            trim(connections, slot, now_ns);
        return;
    }
    base = stream->base + decided;
    acked = stream->acked - decided;
    stream_release(stream, &connections->pool);
    *stream = stream_make(base);
    stream->acked = acked;
}

/// Makes the connection unreadable because the current packet can't be decided. Returns true: the
/// packet is decided by unreadable names.
static bool give_up(struct connections *connections, enum connection_cause cause, uint64_t now_ns) {
    struct connection_queries *queries = &connections->queries;

    at(connections, queries->slot)->names.state = NAMES_UNDECIDED;
    lifetime_make_unreadable(connections, queries->slot, cause, now_ns);
    queries->slot = CONNECTION_SLOT_NONE;
    return true;
}

bool queries_next(struct connections *connections, uint64_t now_ns) {
    struct connection_queries *queries = &connections->queries;
    const uint8_t *bytes = connections->gathered;
    struct connection *connection;
    uint32_t taken;

    if (queries->slot == CONNECTION_SLOT_NONE)
        return false;
    if (queries->place >= queries->limit || whole_at(bytes, queries->place, queries->end) == 0) {
        queries->slot = CONNECTION_SLOT_NONE;
        return false;
    }
    if (queries->left == 0)
        return give_up(connections, CONNECTION_GAPS, now_ns);
    queries->left--;
    connection = at(connections, queries->slot);
    if (names_dns_framed(bytes + queries->place, queries->end - queries->place, &connection->names,
                         &taken) != NAMES_KNOWN)
        return give_up(connections, CONNECTION_PARSE, now_ns);
    connection->cache = (struct connection_cache){0};
    queries->place += taken;
    if (queries->place > queries->counted)
        connections->counts.decided[connection->names.protocol]++;
    return true;
}

/// Records that the messages up to an offset are decided with the current packet, and moves the
/// connection to the list Settling.
static void decide_to(struct connections *connections, uint32_t slot, uint32_t place,
                      uint64_t now_ns) {
    struct stream *stream = &at(connections, slot)->stream;

    if (place <= stream->decided)
        return;
    stream->decided = place;
    connection_table_move_to(&connections->table, slot, CONNECTION_SETTLING, now_ns);
}

/// Handles a packet that completes no query. If the beginning of the next query is invalid, the
/// connection becomes unreadable. Otherwise, if a part of that query is stored, its time limit
/// starts.
/// - grown: true if the packet extended the bytes before the first gap.
static void note_part(struct connections *connections, uint32_t slot, bool grown, uint64_t now_ns) {
    struct connection *connection = at(connections, slot);
    const uint32_t decided = connection->stream.decided;
    const uint32_t end = stream_prefix(&connection->stream);
    uint32_t taken;

    if (grown && names_dns_framed(connections->gathered + decided, end - decided,
                                  &connection->names, &taken) == NAMES_UNREADABLE) {
        connection->names.state = NAMES_UNDECIDED;
        lifetime_make_unreadable(connections, slot, CONNECTION_PARSE, now_ns);
        return;
    }
    if (grown)
        connection->cache = (struct connection_cache){0};
    if (stream_has_more(&connection->stream))
        lifetime_start_showing(connections, slot, now_ns);
}

struct followed queries_follow(struct connections *connections, uint32_t slot, uint32_t offset,
                               const uint8_t *data, uint32_t captured, uint32_t length,
                               uint64_t now_ns) {
    struct stream *stream = &at(connections, slot)->stream;
    const uint32_t before = stream_prefix(stream);
    enum stream_put put;
    uint32_t end;

    if (stream->let_go)
        return lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    if (captured < length)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    if (offset > STREAM_BYTES_MAX || length > STREAM_BYTES_MAX - offset)
        return lifetime_packet_unreadable(connections, CONNECTION_GAPS);
    put = lifetime_store(connections, slot, offset, data, length, now_ns);
    if (put != STREAM_KEPT)
        return lifetime_refuse(connections, slot, put, now_ns);
    if (offset > before)
        stream->ahead = true;
    end = gather(connections, slot);
    connections->queries = (struct connection_queries){
        .slot = slot,
        .place = border(connections, offset, end),
        .end = end,
        .limit = stream->ahead ? end : offset + length,
        .counted = stream->decided,
        .left = QUERIES_MAX,
    };
    decide_to(connections, slot, border(connections, end, end), now_ns);
    if (!queries_next(connections, now_ns))
        note_part(connections, slot, end > before, now_ns);
    return lifetime_packet_names(connections, slot);
}
