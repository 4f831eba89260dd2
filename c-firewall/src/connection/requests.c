// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/requests.h"

#include <string.h>

#include "connection/lifetime.h"
#include "connection/queries.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/http.h"

// Maximum number of bytes by which a stream's start is moved at once. It is less than half of all
// sequence numbers, so that positions before and after the start are distinguishable.
#define STEP_BYTES (1U << 30)

enum {
    STATUS_PLACE = 9, // offset of the status code in a server's first line
    STATUS_BYTES = 3,
};

static const char PROTOCOL[] = "HTTP/1.";

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

static struct connection *at(struct connections *connections, uint32_t slot) {
    return connection_table_at(&connections->table, slot);
}

static bool is_http(const struct connection *connection) {
    return connection->names.state == NAMES_KNOWN && connection->names.protocol == NAMES_HTTP;
}

bool requests_go_on(const struct connection *connection) {
    return is_http(connection) && (connection->requests.awaited == REQUESTS_HEADER ||
                                   connection->requests.awaited == REQUESTS_CHUNK);
}

/// Returns the end of the last stored piece of a stream; 0 if no piece is stored.
static uint32_t kept_end(const struct stream *stream) {
    return stream->span_count > 0 ? stream->spans[stream->span_count - 1].end : 0;
}

bool requests_are_lost(struct connection *connection, const struct connection_input *input) {
    if (!input->asks_requests && requests_go_on(connection))
        connection->requests.awaited = REQUESTS_LOST;
    return input->asks_requests && is_http(connection) &&
           connection->requests.awaited == REQUESTS_LOST;
}

void requests_hear(struct connection *connection, const struct segment *segment) {
    const uint8_t *status;

    if (segment->sequence != connection->server_begun || segment->length == 0)
        return;
    connection->may_switch = false;
    if (segment->captured < STATUS_PLACE + STATUS_BYTES ||
        memcmp(segment->data, PROTOCOL, sizeof PROTOCOL - 1) != 0)
        return;
    status = segment->data + STATUS_PLACE;
    // A CONNECT tunnel begins with any successful status (RFC 9110, section 9.3.6).
    if (memcmp(status, "101", STATUS_BYTES) == 0 ||
        (status[0] == '2' && connection->names.method_length == 7 &&
         memcmp(connection->names.method, "CONNECT", 7) == 0))
        connection->requests.awaited = REQUESTS_NOTHING;
}

void requests_rebase(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct connection *connection = at(connections, slot);
    struct requests *requests = &connection->requests;
    struct stream *stream = &connection->stream;
    const struct stream before = *stream;
    const uint32_t end = stream_prefix(stream), step = (uint32_t)min(requests->next, STEP_BYTES);
    const uint32_t kept = end > requests->next ? end - step : 0;
    enum stream_put put;

    // Bytes after a gap wait until the gap is filled.
    if (step == 0 || before.acked == 0 || before.acked < before.decided ||
        (kept_end(stream) > end && kept_end(stream) > requests->next))
        return;
    if (kept > 0)
        stream_gather(stream, &connections->pool, step, end, connections->gathered);
    stream_release(stream, &connections->pool);
    *stream = stream_make(before.base + step);
    requests->next -= step;
    connection->requests_begun = *requests;
    put = stream_insert(stream, &connections->pool, 0, connections->gathered, kept);
    stream->acked = before.acked > step ? before.acked - step : 0;
    if (put != STREAM_KEPT) {
        lifetime_make_unreadable(connections, slot, CONNECTION_POOL, now_ns);
        return;
    }
    if (kept == 0 && connection->list == CONNECTION_SETTLING)
        connection_table_move_to(&connections->table, slot,
                                 connection->closed ? CONNECTION_CLOSING : CONNECTION_KNOWN,
                                 now_ns);
}

/// Moves past the header of a request (or the head of a chunk) and the body that follows it.
/// - head_bytes: length of the header.
/// - body_bytes: length of the body.
static void pass(struct connections *connections, uint32_t head_bytes, uint64_t body_bytes,
                 uint64_t now_ns) {
    struct connection_queries *queries = &connections->queries;
    struct connection *connection = at(connections, queries->slot);
    const uint32_t decided = queries->place + head_bytes;

    connection->requests.next = decided + body_bytes;
    connection->progress = (struct names_progress){0};
    queries->place = (uint32_t)min(connection->requests.next, queries->end);
    if (decided <= connection->stream.decided)
        return;
    connection->stream.decided = decided;
    connection_table_move_to(&connections->table, queries->slot, CONNECTION_SETTLING, now_ns);
}

/// Reads the head of a chunk of a body. If the head is complete and valid, moves past the chunk.
/// Returns the result of names_body_chunk.
static enum names_state skip_chunk(struct connections *connections, const uint8_t *bytes,
                                   uint32_t length, uint64_t now_ns) {
    struct names_chunk chunk;
    const enum names_state state = names_body_chunk(bytes, length, &chunk);

    if (state != NAMES_KNOWN)
        return state;
    if (chunk.bytes == 0)
        at(connections, connections->queries.slot)->requests.awaited = REQUESTS_HEADER;
    pass(connections, chunk.head_bytes, chunk.bytes, now_ns);
    return NAMES_KNOWN;
}

/// Stores the names of a request that decides the current packet.
static void note(struct connections *connections, const struct names *names,
                 const struct names_body *body, uint64_t now_ns) {
    const struct connection_queries *queries = &connections->queries;
    struct connection *connection = at(connections, queries->slot);
    const bool is_first = queries->place == 0 && connection->stream.base == connection->begun;

    connection->names = *names;
    connection->cache = (struct connection_cache){0};
    connection->requests.awaited = body->is_chunked ? REQUESTS_CHUNK : REQUESTS_HEADER;
    // For a later request, the position of the response in the server's bytes is unknown.
    connection->may_switch =
        body->switches && is_first && connection->server_end == connection->server_begun;
    if (queries->place + body->header_bytes > queries->counted)
        connections->counts.decided[NAMES_HTTP]++;
    pass(connections, body->header_bytes, body->length, now_ns);
}

/// Reads the header of an HTTP request.
/// - is_read: out: true if the header is complete: then the request decides the current packet.
static enum names_state parse_header(struct connections *connections, const uint8_t *bytes,
                                     uint32_t length, uint64_t now_ns, bool *is_read) {
    struct names_progress *progress = &at(connections, connections->queries.slot)->progress;
    uint32_t ends = 0; // number of bytes of empty lines
    enum names_state state;
    struct names_body body;
    struct names names;

    while (progress->searched == 0 && ends < length && (bytes[ends] == '\r' || bytes[ends] == '\n'))
        ends++;
    if (ends == length) {
        pass(connections, ends, 0, now_ns);
        return NAMES_KNOWN;
    }
    state = names_http_begins(bytes, length, progress);
    if (state == NAMES_KNOWN)
        state = names_http_parse(bytes, length, false, progress, &body, &names);
    if (state == NAMES_NONE || (state == NAMES_KNOWN && names.protocol != NAMES_HTTP))
        return NAMES_UNREADABLE;
    *is_read = state == NAMES_KNOWN;
    if (*is_read)
        note(connections, &names, &body, now_ns);
    return state;
}

/// Makes the connection unreadable because the current packet can't be decided. Returns true: the
/// packet is decided by unreadable names.
static bool give_up(struct connections *connections, enum connection_cause cause, uint64_t now_ns) {
    const uint32_t slot = connections->queries.slot;

    lifetime_make_unreadable(connections, slot, cause, now_ns);
    connections->queries.slot = CONNECTION_SLOT_NONE;
    return true;
}

bool requests_next(struct connections *connections, uint64_t now_ns) {
    struct connection_queries *queries = &connections->queries;
    bool is_read = false;

    while (queries->slot != CONNECTION_SLOT_NONE && queries->place < queries->end) {
        const uint8_t *bytes = connections->gathered + queries->place;
        const uint32_t length = queries->end - queries->place;
        const bool is_chunk = at(connections, queries->slot)->requests.awaited == REQUESTS_CHUNK;
        enum names_state state;

        if (!is_chunk && queries->left-- == 0)
            return give_up(connections, CONNECTION_GAPS, now_ns);
        state = is_chunk ? skip_chunk(connections, bytes, length, now_ns)
                         : parse_header(connections, bytes, length, now_ns, &is_read);
        if (state == NAMES_UNREADABLE || (state == NAMES_UNDECIDED && length >= STREAM_BYTES_MAX))
            return give_up(connections, CONNECTION_PARSE, now_ns);
        if (is_read)
            return true;
        if (state == NAMES_UNDECIDED) {
            lifetime_start_showing(connections, queries->slot, now_ns);
            break;
        }
    }
    queries->slot = CONNECTION_SLOT_NONE;
    return false;
}

/// Reads the bytes of a stream before its first gap, and moves to the first request that decides
/// the packet.
/// - place: offset at which the reading begins.
static struct followed parse(struct connections *connections, uint32_t slot, uint64_t place,
                             uint64_t now_ns) {
    const struct stream *stream = &at(connections, slot)->stream;
    const uint32_t end = stream_prefix(stream);

    if (place >= end)
        return lifetime_packet_names(connections, slot);
    stream_gather(stream, &connections->pool, 0, end, connections->gathered);
    connections->queries = (struct connection_queries){
        .slot = slot,
        .place = (uint32_t)place,
        .end = end,
        .counted = stream->decided,
        .left = QUERIES_MAX,
    };
    requests_next(connections, now_ns);
    return lifetime_packet_names(connections, slot);
}

struct followed requests_begin(struct connections *connections, uint32_t slot,
                               const struct segment *segment) {
    struct connection *connection = at(connections, slot);

    connection->requests = (struct requests){0};
    connection->requests_begun = connection->requests;
    connection->progress = (struct names_progress){0};
    if (segment->input.asks_requests)
        return parse(connections, slot, 0, segment->now_ns);
    connection->requests.awaited = REQUESTS_LOST;
    lifetime_decide(connections, slot, stream_prefix(&connection->stream), segment->now_ns);
    return lifetime_packet_names(connections, slot);
}

struct followed requests_follow(struct connections *connections, uint32_t slot, uint32_t offset,
                                const uint8_t *data, uint32_t captured, uint32_t length,
                                uint64_t now_ns) {
    struct connection *connection = at(connections, slot);
    struct requests *requests = &connection->requests;
    const uint32_t room = offset < STREAM_BYTES_MAX ? STREAM_BYTES_MAX - offset : 0;
    const uint32_t needed = (uint32_t)min(length, room);
    const uint32_t before = stream_prefix(&connection->stream);
    const bool is_body =
        offset >= connection->stream.decided && (uint64_t)offset + length <= requests->next;
    enum stream_put put;

    if (connection->stream.let_go)
        return is_body ? lifetime_packet_names(connections, slot)
                       : lifetime_packet_unreadable(connections, CONNECTION_AMBIGUOUS);
    if (needed < length && !is_body)
        return lifetime_packet_unreadable(connections, CONNECTION_GAPS);
    if (captured < needed)
        return lifetime_packet_unreadable(connections, CONNECTION_CUT);
    put = lifetime_store(connections, slot, offset, data, needed, now_ns);
    if (put != STREAM_KEPT)
        return lifetime_refuse(connections, slot, put, now_ns);
    if (offset < connection->stream.decided) {
        *requests = connection->requests_begun;
        connection->progress = (struct names_progress){0};
        return parse(connections, slot, requests->next, now_ns);
    }
    // A header that has begun stays incomplete until a line ends.
    if (connection->list == CONNECTION_SHOWING && offset <= before &&
        stream_prefix(&connection->stream) == offset + needed &&
        offset + needed < STREAM_BYTES_MAX && requests->awaited == REQUESTS_HEADER &&
        !memchr(data, '\n', needed))
        return lifetime_packet_names(connections, slot);
    return parse(connections, slot, requests->next, now_ns);
}
