// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/retry.h"

#include <string.h>

#include "connection/lifetime.h"
#include "connection/opening.h"
#include "connection/stream.h"
#include "connection/table.h"
#include "names/hello.h"
#include "names/record.h"

enum {
    VERSION_1_3 = 0x0304, // the lowest version of TLS that has a retry
    // Length of the start of a server's first message: the headers of a record and of a handshake
    // message, a version, and the server's random bytes.
    HEAD_BYTES = 43,
};

// Start of a HelloRetryRequest: a handshake record with a ServerHello, whose random bytes are
// SHA-256 of "HelloRetryRequest".
static const uint8_t head[HEAD_BYTES] = {
    0x16, 0,    0,    0,    0,    0x02, 0,    0,    0,    0,    0,    0xcf, 0x21, 0xad, 0x74,
    0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

/// Bit mask of `head`: bit n is set if all HelloRetryRequests have the byte n of `head`.
#define FIXED 0x7fffffff821ULL

bool retry_can(const struct names *names) {
    return names->state == NAMES_KNOWN && names->protocol == NAMES_TLS &&
           names->version >= VERSION_1_3;
}

void retry_hear(struct connection *connection, const struct segment *segment) {
    const uint32_t offset = segment->sequence - connection->server_begun;

    for (uint32_t i = 0; i < segment->captured && offset < HEAD_BYTES && offset + i < HEAD_BYTES;
         i++)
        if ((FIXED >> (offset + i) & 1) && segment->data[i] != head[offset + i])
            connection->may_retry = false;
}

void retry_settle(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    const struct connection *connection = connection_table_at(&connections->table, slot);

    if (opening_is_finished(connection) && connection->list == CONNECTION_SETTLING &&
        !(connection->is_dns && stream_has_more(&connection->stream)))
        lifetime_settle(connections, slot, now_ns);
}

struct followed retry_parse(struct connections *connections, uint32_t slot, uint64_t now_ns) {
    struct connection *connection = connection_table_at(&connections->table, slot);
    const uint32_t end = stream_prefix(&connection->stream);
    struct names *other = &connections->alone;
    enum names_state state;

    stream_gather(&connection->stream, &connections->pool, 0, NAMES_RECORD_HEAD_BYTES,
                  connections->gathered);
    if (names_record_is_alone(connections->gathered, end))
        return lifetime_packet_names(connections, slot);
    stream_gather(&connection->stream, &connections->pool, 0, end, connections->gathered);
    state = names_record_parse_second(connections->gathered, end, connections->scratch,
                                      &connection->progress, other);
    if (state == NAMES_UNREADABLE)
        return lifetime_make_unreadable(connections, slot, CONNECTION_PARSE, now_ns);
    if (state == NAMES_KNOWN && !names_hello_is_same(&connection->names, other))
        return lifetime_deny_evasion(connections, slot, now_ns);
    connection->may_retry = state == NAMES_UNDECIDED;
    // The names are final only once the server has these bytes, also if another message is in the
    // second hello's place.
    if (state != NAMES_UNDECIDED)
        connection->stream.decided = end;
    retry_settle(connections, slot, now_ns);
    return lifetime_packet_names(connections, slot);
}
