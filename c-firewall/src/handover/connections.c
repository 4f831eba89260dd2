// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/connections.h"

#include "connection/follow.h"
#include "connection/lifetime.h"
#include "connection/table.h"
#include "handover/record.h"

enum {
    FORM = 3,
    FORM_BYTES = 4,
    NUMBER_BYTES = 4,
    KEY_BYTES = 16,
    // Size of the numbers at the end of a worker's serialized connections, in bytes: the key of a
    // hash and four numbers.
    END_BYTES = KEY_BYTES + 4 * NUMBER_BYTES,
    GRAVE_BYTES = 3 * NUMBER_BYTES, // size of the record of a forgotten connection
    // Maximum size of the records of a connection that is left out of the transfer and recorded as
    // forgotten: one record for its ends, and one for its QUIC connection id.
    LEFT_OUT_BYTES = 2 * GRAVE_BYTES,
};

#define KEY_WORDS 2

/// Returns the number of records of forgotten connections (graves).
static uint64_t count_graves(const struct connections *connections, uint64_t now_ns) {
    const struct connection_table *table = &connections->table;
    uint64_t count = 0;
    uint32_t age;

    for (uint32_t place = 0; place <= table->mask; place++)
        count += connection_table_grave_age(table, place, now_ns, &age);
    return count;
}

/// Writes a record of a forgotten connection (grave).
/// - place: index in the table's `graves`.
/// - count: in/out: number of records.
/// - Returns 0 or -errno.
static int write_grave(struct handover_memory *memory, uint32_t place, uint32_t tag, uint32_t age,
                       uint32_t *count) {
    struct handover_record record;

    ++*count;
    record.length = 0;
    handover_record_append_number(&record, place, NUMBER_BYTES);
    handover_record_append_number(&record, tag, NUMBER_BYTES);
    handover_record_append_number(&record, age, NUMBER_BYTES);
    return handover_memory_append(memory, record.bytes, record.length);
}

/// Writes the records of forgotten connections (graves).
/// - count: in/out: number of records.
/// - Returns 0 or -errno.
static int write_graves(struct handover_memory *memory, const struct connections *connections,
                        uint64_t now_ns, uint32_t *count) {
    const struct connection_table *table = &connections->table;
    int result = 0;

    for (uint32_t place = 0; result == 0 && place <= table->mask; place++) {
        uint32_t age;

        if (connection_table_grave_age(table, place, now_ns, &age))
            result = write_grave(memory, place, table->graves[place].tag, age, count);
    }
    return result;
}

/// Writes the records of a connection that is left out, as of a forgotten connection, if its server
/// may continue it. The table stays unchanged, because this firewall continues if the upgrade
/// fails.
/// - count: in/out: number of records.
/// - Returns 0 or -errno.
static int write_left_out(struct handover_memory *memory, struct connections *connections,
                          uint32_t slot, uint32_t *count) {
    const struct connection_table *table = &connections->table;
    uint64_t hashes[2] = {0};
    const uint32_t all = lifetime_removal_hashes(connections, slot, hashes);
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < all; i++)
        result = write_grave(memory, connection_table_bucket(table, hashes[i]),
                             connection_table_tag(hashes[i]), 0, count);
    return result;
}

/// Writes the connections, list by list, then the records of forgotten connections: of the table,
/// and of the connections that are left out because there is no room.
/// - room: number of bytes that may be written, without the table's records of forgotten
///   connections.
/// - counts: in/out: numbers of written connections, of connections that were left out, and of
///   records of forgotten connections.
/// - Returns 0 or -errno.
static int write_records(struct handover_memory *memory, struct connections *connections,
                         uint64_t room, uint64_t now_ns, uint32_t counts[static 3]) {
    struct handover_record record;
    uint64_t left = room, others = connection_count(connections);
    int result = 0;

    for (uint32_t i = 0; i < CONNECTION_LIST_COUNT; i++) {
        uint32_t slot = connections->table.lists[handover_record_order[i]].oldest;

        while (result == 0 && slot != CONNECTION_SLOT_NONE) {
            const struct connection *connection = connection_table_at(&connections->table, slot);
            const uint32_t this = slot;

            record.length = 0;
            handover_record_append(&record, connection, &connections->pool, now_ns);
            slot = connection->newer;
            others--;
            // After a connection is left out, smaller ones are not written in its place.
            if (counts[1] == 0 && record.length + others * LEFT_OUT_BYTES <= left) {
                left -= record.length;
                counts[0]++;
                result = handover_memory_append(memory, record.bytes, record.length);
                continue;
            }
            if (counts[1] == 0)
                result = write_graves(memory, connections, now_ns, &counts[2]);
            counts[1]++;
            if (result == 0)
                result = write_left_out(memory, connections, this, &counts[2]);
        }
    }
    if (result == 0 && counts[1] == 0)
        result = write_graves(memory, connections, now_ns, &counts[2]);
    return result;
}

int handover_connections_write(struct handover_memory *memory, struct connections *connections,
                               uint64_t room, uint64_t now_ns) {
    const struct connection_table *table = &connections->table;
    const uint64_t buried = count_graves(connections, now_ns) * GRAVE_BYTES;
    const uint64_t others = FORM_BYTES + END_BYTES + buried;
    uint32_t counts[3] = {0};
    struct handover_record record;
    int result;

    room = room > others ? room - others : 0;
    record.length = 0;
    handover_record_append_number(&record, FORM, FORM_BYTES);
    result = handover_memory_append(memory, record.bytes, record.length);
    if (result == 0)
        result = write_records(memory, connections, room, now_ns, counts);
    if (result < 0)
        return result;
    record.length = 0;
    for (uint32_t i = 0; i < KEY_WORDS; i++)
        handover_record_append_number(&record, table->key.words[i], KEY_BYTES / KEY_WORDS);
    handover_record_append_number(&record, table->mask, NUMBER_BYTES);
    handover_record_append_number(&record, counts[0], NUMBER_BYTES);
    handover_record_append_number(&record, counts[1], NUMBER_BYTES);
    handover_record_append_number(&record, counts[2], NUMBER_BYTES);
    return handover_memory_append(memory, record.bytes, record.length);
}

/// Returns the number of connections that were evicted so far, summed over all lists.
static uint64_t evicted(const struct connections *connections) {
    uint64_t sum = 0;

    for (uint32_t list = 0; list < CONNECTION_LIST_COUNT; list++)
        sum += connections->counts.evicted[list];
    return sum;
}

/// Parses the records of forgotten connections (graves) and adds them to the table. Returns true if
/// all records are valid.
/// - mask: highest place in the old table.
static bool parse_graves(struct handover_reading *reading, struct connections *connections,
                         uint32_t mask, uint64_t count, uint64_t now_ns) {
    bool is_good = true;

    for (uint64_t i = 0; i < count; i++) {
        const uint32_t place = (uint32_t)handover_record_number(reading, NUMBER_BYTES);
        const uint32_t tag = (uint32_t)handover_record_number(reading, NUMBER_BYTES);
        const uint32_t age = (uint32_t)handover_record_number(reading, NUMBER_BYTES);
        struct connection_table *table = &connections->table;

        is_good = is_good && connection_table_bury_told(table, mask, place, tag, age, now_ns);
    }
    return is_good && !reading->cut;
}

static const char *parse_all(const uint8_t *bytes, size_t length, struct connections *connections,
                             uint64_t now_ns, struct handover_connections_taken *followed) {
    const uint64_t before = evicted(connections);
    struct handover_reading reading, end;
    const char *wrong = NULL;
    uint64_t told, graves, words[KEY_WORDS];
    uint32_t mask;

    if (length < END_BYTES)
        return "length";
    length -= END_BYTES;
    end = handover_record_begin(bytes + length, END_BYTES);
    for (uint32_t i = 0; i < KEY_WORDS; i++)
        words[i] = handover_record_number(&end, KEY_BYTES / KEY_WORDS);
    mask = (uint32_t)handover_record_number(&end, NUMBER_BYTES);
    told = handover_record_number(&end, NUMBER_BYTES);
    followed->left_out = handover_record_number(&end, NUMBER_BYTES);
    graves = handover_record_number(&end, NUMBER_BYTES);
    reading = handover_record_begin(bytes, length);
    if (handover_record_number(&reading, FORM_BYTES) != FORM)
        return "form";
    connections->table.key = (struct siphash_key){{words[0], words[1]}};
    for (uint64_t i = 0; !wrong && i < told; i++)
        wrong = handover_record_decode(&reading, connections, now_ns);
    if (wrong)
        return wrong;
    if (reading.left != graves * GRAVE_BYTES)
        return "count";
    if (!parse_graves(&reading, connections, mask, graves, now_ns))
        return "graves";
    followed->taken = told - (evicted(connections) - before);
    followed->left_out += evicted(connections) - before;
    return NULL;
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
