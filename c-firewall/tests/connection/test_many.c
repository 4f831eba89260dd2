// SPDX-License-Identifier: GPL-2.0-or-later
// Tests a hundred thousand simultaneous connections whose clients have not sent their names yet.
#include "connection/follow.h"
#include "connection/table.h"

#include <string.h>

#include "test.h"

enum {
    CLIENTS = 100000,
    MEMORY_BYTES = 300 << 20, // limit of the memory for all connections, in bytes
    PACKET_BYTES = 128,
    HEADER_BYTES = 40,
    SECOND_NS = 1000000000,
    SYN = 0x02,
    ACK = 0x10,
};

static const struct connection_settings settings = {
    .connections = 131072,
    .hello_bytes = 128 << 20,
    .hello_timeout_ns = 10ULL * SECOND_NS,
    .undecided_bytes = 8192,
};

static const char *const parts[] = {"GET / HTTP/1.1\r\nHost: a.exa", "mple\r\n\r\n"};

/// Sends a packet of a client, or the server's answer to it. Returns the state of the client's
/// names after the packet.
static enum names_state send_packet(struct connections *connections, uint32_t client, uint8_t flags,
                                    uint32_t at, const char *data) {
    const bool is_answer = flags == (SYN | ACK);
    const uint8_t address[2][4] = {
        {10, (uint8_t)(client >> 16), (uint8_t)(client >> 8), (uint8_t)client}, {192, 0, 2, 1}};
    const uint8_t port[2][2] = {{0x80, 0}, {0, 80}};
    const struct connection_input how = {
        .checksum = CONNECTION_CHECKSUM_VERIFIED,
        .generation = 1,
        .now_ns = SECOND_NS,
    };
    const uint32_t length = HEADER_BYTES + (uint32_t)strlen(data);
    uint8_t bytes[PACKET_BYTES] = {0x45, 0, 0, (uint8_t)length, 0, 0, 0x40, 0, 64, 6};
    struct packet packet;
    struct followed followed;

    memcpy(&bytes[12], address[is_answer], 4);
    memcpy(&bytes[16], address[!is_answer], 4);
    memcpy(&bytes[20], port[is_answer], 2);
    memcpy(&bytes[22], port[!is_answer], 2);
    bytes[27] = (uint8_t)at;
    bytes[31] = 1;
    bytes[32] = 0x50;
    bytes[33] = flags;
    memcpy(&bytes[HEADER_BYTES], data, strlen(data));
    packet_parse(bytes, length, length, &packet);
    followed = connection_follow(connections, &packet, &how);
    return connection_names(connections, &followed)->state;
}

/// Returns the number of bytes that are allocated for connections, touched or not.
static size_t memory_bytes(const struct connections *connections) {
    const struct connection_table *table = &connections->table;
    const struct connection_pool *pool = &connections->pool;
    const size_t a_bucket = sizeof *table->buckets + sizeof *table->id_buckets +
                            sizeof *table->graves + sizeof *table->shares;

    return table->limit * sizeof *table->slots + (table->mask + 1ULL) * a_bucket +
           pool->count * (CONNECTION_BLOCK_BYTES + sizeof *pool->links);
}

static void a_hundred_thousand_undecided_ones_are_all_kept(void **state) {
    struct connections connections;
    struct connection_counts counts;
    const uint32_t at = 1 + (uint32_t)strlen(parts[0]);

    (void)state;
    assert_int_equal(connection_make(&connections, &settings), 0);
    for (uint32_t client = 0; client < CLIENTS; client++) {
        send_packet(&connections, client, SYN, 0, "");
        send_packet(&connections, client, SYN | ACK, 0, "");
        assert_int_equal(send_packet(&connections, client, ACK, 1, parts[0]), NAMES_UNDECIDED);
    }
    counts = connection_counts(&connections);
    assert_int_equal(counts.now[CONNECTION_SHOWING], CLIENTS);
    for (uint32_t client = 0; client < CLIENTS; client++)
        assert_int_equal(send_packet(&connections, client, ACK, at, parts[1]), NAMES_KNOWN);
    counts = connection_counts(&connections);
    assert_int_equal(counts.decided[NAMES_HTTP], CLIENTS);
    for (int i = 0; i < CONNECTION_CAUSE_COUNT; i++)
        assert_int_equal(counts.unreadable[i], 0);
    for (int i = 0; i < CONNECTION_LIST_COUNT; i++)
        assert_int_equal(counts.evicted[i], 0);
    assert_false(connection_table_is_full(&connections.table));
    assert_true(memory_bytes(&connections) < MEMORY_BYTES);
    connection_free(&connections);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_undecided_ones_are_all_kept),
    };

    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
