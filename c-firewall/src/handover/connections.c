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
    // Size of the numbers after the last record: the key of a hash and four numbers.
    END_BYTES = KEY_BYTES + 4 * NUMBER_BYTES,
    GRAVE_BYTES = 3 * NUMBER_BYTES, // size of the record of a forgotten connection
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

/// Writes the connections, list by list. Connections for which there is no room are recorded as
/// forgotten, if their servers may continue them.
/// - room: number of bytes that may be written, including those of connections that are recorded as
///   forgotten.
/// - counts: out: number of written connections, and number of connections that were left out.
/// - Returns 0 or -errno.
static int write_records(struct handover_memory *memory, struct connections *connections,
                         uint64_t room, uint64_t now_ns, uint32_t counts[static 2]) {
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
            if (record.length + others * GRAVE_BYTES > left) {
                counts[1]++;
                left = 0; // smaller connections are not written in place of larger ones
                lifetime_record_removal(connections, this, now_ns);
                continue;
            }
            left -= record.length;
            counts[0]++;
            result = handover_memory_append(memory, record.bytes, record.length);
        }
    }
    return result;
}

/// Writes the records of forgotten connections (graves).
/// - count: out: number of records.
/// - Returns 0 or -errno.
static int write_graves(struct handover_memory *memory, const struct connections *connections,
                        uint64_t now_ns, uint32_t *count) {
    const struct connection_table *table = &connections->table;
    struct handover_record record;
    int result = 0;

    for (uint32_t place = 0; result == 0 && place <= table->mask; place++) {
        uint32_t age;

        if (!connection_table_grave_age(table, place, now_ns, &age))
            continue;
        record.length = 0;
        handover_record_append_number(&record, place, NUMBER_BYTES);
        handover_record_append_number(&record, table->graves[place].tag, NUMBER_BYTES);
        handover_record_append_number(&record, age, NUMBER_BYTES);
        result = handover_memory_append(memory, record.bytes, record.length);
        ++*count;
    }
    return result;
}

int handover_connections_write(struct handover_memory *memory, struct connections *connections,
                               uint64_t room, uint64_t now_ns) {
    const struct connection_table *table = &connections->table;
    const uint64_t buried = count_graves(connections, now_ns) * GRAVE_BYTES;
    const uint64_t others = FORM_BYTES + END_BYTES + buried;
    uint32_t counts[2] = {0}, graves = 0;
    struct handover_record record;
    int result;

    room = room > others ? room - others : 0;
    record.length = 0;
    handover_record_append_number(&record, FORM, FORM_BYTES);
    result = handover_memory_append(memory, record.bytes, record.length);
    if (result == 0)
        result = write_records(memory, connections, room, now_ns, counts);
    if (result == 0)
        result = write_graves(memory, connections, now_ns, &graves);
    if (result < 0)
        return result;
    record.length = 0;
    for (uint32_t i = 0; i < KEY_WORDS; i++)
        handover_record_append_number(&record, table->key.words[i], KEY_BYTES / KEY_WORDS);
    handover_record_append_number(&record, table->mask, NUMBER_BYTES);
    handover_record_append_number(&record, counts[0], NUMBER_BYTES);
    handover_record_append_number(&record, counts[1], NUMBER_BYTES);
    handover_record_append_number(&record, graves, NUMBER_BYTES);
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
