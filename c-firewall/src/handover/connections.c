// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/connections.h"

#include "connection/lifetime.h"
#include "connection/table.h"
#include "handover/record.h"

enum {
    FORM = 1,
    FORM_BYTES = 4,
    COUNT_BYTES = 4,
};

int handover_connections_write(struct handover_memory *memory, struct connections *connections,
                               uint64_t room, uint64_t now_ns) {
    struct handover_record record;
    uint64_t left = room;
    uint32_t told = 0, left_out = 0;
    int result;

    record.length = 0;
    handover_record_put_number(&record, FORM, FORM_BYTES);
    result = handover_memory_put(memory, record.bytes, record.length);
    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        uint32_t slot = connections->table.lists[handover_record_order[i]].oldest;

        while (result == 0 && slot != CONNECTION_SLOT_NONE) {
            const struct connection *connection = connection_table_at(&connections->table, slot);

            record.length = 0;
            handover_record_put(&record, connection, &connections->pool, now_ns);
            slot = connection->newer;
            if (record.length > left) {
                left_out++;
                left = 0; // none is passed over for a smaller one
                continue;
            }
            left -= record.length;
            told++;
            result = handover_memory_put(memory, record.bytes, record.length);
        }
    }
    record.length = 0;
    handover_record_put_number(&record, told, COUNT_BYTES);
    handover_record_put_number(&record, left_out, COUNT_BYTES);
    return result < 0 ? result : handover_memory_put(memory, record.bytes, record.length);
}

/// Connections that made room for others.
static uint64_t evicted(const struct connections *connections) {
    uint64_t sum = 0;

    for (uint32_t list = 0; list < CONNECTION_LIST_COUNT; list++)
        sum += connections->counts.evicted[list];
    return sum;
}

static const char *parse_all(const uint8_t *bytes, size_t length, struct connections *connections,
                             uint64_t now_ns, struct handover_connections_taken *followed) {
    const uint64_t before = evicted(connections);
    struct handover_reading reading, counts;
    const char *wrong = NULL;
    uint64_t told, count = 0;

    if (length < 2 * COUNT_BYTES)
        return "length";
    length -= 2 * COUNT_BYTES;
    counts = handover_record_begin(bytes + length, 2 * COUNT_BYTES);
    told = handover_record_number(&counts, COUNT_BYTES);
    followed->left_out = handover_record_number(&counts, COUNT_BYTES);
    reading = handover_record_begin(bytes, length);
    if (handover_record_number(&reading, FORM_BYTES) != FORM)
        return "form";
    for (; !wrong && reading.left > 0; count++)
        wrong = handover_record_take(&reading, connections, now_ns);
    if (!wrong && (reading.cut || count != told))
        wrong = "count";
    followed->taken = count - (evicted(connections) - before);
    followed->left_out += evicted(connections) - before;
    return wrong;
}

const char *handover_connections_parse(const uint8_t *bytes, size_t length,
                                       struct connections *connections, uint64_t now_ns,
                                       struct handover_connections_taken *followed) {
    const char *wrong;

    *followed = (struct handover_connections_taken){0};
    wrong = parse_all(bytes, length, connections, now_ns, followed);
    if (wrong)
        lifetime_forget_all(connections);
    return wrong;
}
