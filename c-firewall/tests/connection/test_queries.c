// SPDX-License-Identifier: GPL-2.0-or-later
// Tests DNS over TCP with more queries than one packet or the stored stream can contain.
#include "connection/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/follow.h"
#include "test.h"

enum {
    HEADER_BYTES = 40,
    QUERY_BYTES = 34, // size of a query with its length field, in bytes
    QUERIES = 2000,
    PART_BYTES = 100,  // number of bytes of the stream in each packet
    LATE_BYTES = 9000, // number of latest bytes that the server has not acknowledged
    PACKET_BYTES = HEADER_BYTES + (QUERIES_MAX + 1) * QUERY_BYTES,
    SECOND_NS = 1000000000,
    // Sequence numbers of the client's first byte (FIRST) and of the server's (ANSWER).
    FIRST = 1000,
    ANSWER = 5000,
    SYN = 0x02,
    ACK = 0x10,
};

static const struct connection_settings settings = {
    .connections = 16,
    .hello_bytes = 65536,
    .hello_timeout_ns = 10ULL * SECOND_NS,
    .undecided_bytes = 8192,
};

static void put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/// Returns queries for q00000.example, q00001.example and so on; the caller frees them.
static uint8_t *make_queries(uint32_t count) {
    static const uint8_t head[] = {0, QUERY_BYTES - 2, 0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    static const uint8_t tail[] = "\7example\0\0\1\0\1";
    uint8_t *bytes = malloc((size_t)count * QUERY_BYTES);

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = bytes + (size_t)i * QUERY_BYTES;
        char name[16];

        snprintf(name, sizeof name, "\6q%05u", i);
        memcpy(at, head, sizeof head);
        memcpy(at + sizeof head, name, 7);
        memcpy(at + sizeof head + 7, tail, sizeof tail - 1);
    }
    return bytes;
}

/// Sends a packet of the client or the server. Returns the result for the packet.
static struct followed send_packet(struct connections *connections, bool from_client, uint8_t flags,
                                   uint32_t sequence, uint32_t acknowledged, const uint8_t *data,
                                   uint32_t length) {
    static uint8_t bytes[PACKET_BYTES];
    const uint8_t ends[2][6] = {{192, 0, 2, 1, 0, 53}, {10, 0, 0, 1, 0x80, 0}};
    const uint8_t *from = ends[from_client], *to = ends[!from_client];
    const struct connection_input how = {
        .checksum = CONNECTION_CHECKSUM_VERIFIED,
        .generation = 1,
        .now_ns = SECOND_NS,
    };
    struct packet packet;

    assert_true(HEADER_BYTES + length <= PACKET_BYTES);
    memset(bytes, 0, HEADER_BYTES);
    bytes[0] = 0x45;
    bytes[2] = (uint8_t)((HEADER_BYTES + length) >> 8);
    bytes[3] = (uint8_t)(HEADER_BYTES + length);
    bytes[6] = 0x40;
    bytes[8] = 64;
    bytes[9] = 6;
    memcpy(&bytes[12], from, 4);
    memcpy(&bytes[16], to, 4);
    memcpy(&bytes[20], from + 4, 2);
    memcpy(&bytes[22], to + 4, 2);
    put32(&bytes[24], sequence);
    put32(&bytes[28], acknowledged);
    bytes[32] = 0x50;
    bytes[33] = flags;
    if (length > 0)
        memcpy(&bytes[HEADER_BYTES], data, length);
    packet_parse(bytes, HEADER_BYTES + length, HEADER_BYTES + length, &packet);
    return connection_follow(connections, &packet, &how);
}

static void begin(struct connections *connections) {
    assert_int_equal(connection_make(connections, &settings), 0);
    send_packet(connections, true, SYN, FIRST - 1, 0, NULL, 0);
    send_packet(connections, false, SYN | ACK, ANSWER - 1, FIRST, NULL, 0);
}

/// Returns true if the current names of a packet are the name in the DNS query with this number.
static bool is_query(const struct connections *connections, const struct followed *followed,
                     uint32_t number) {
    const struct names *names = connection_names(connections, followed);
    char host[NAMES_HOST_BYTES + 1];

    snprintf(host, sizeof host, "q%05u.example", number);
    return names->state == NAMES_KNOWN && names->protocol == NAMES_DNS &&
           names->host_length == strlen(host) && memcmp(names->host, host, names->host_length) == 0;
}

/// Sends `count` queries in one packet. Checks that each of the first QUERIES_MAX queries decides
/// the packet, and that the packet is then unreadable if there are more.
static void check_one_packet(uint32_t count) {
    const uint32_t read = count < QUERIES_MAX ? count : QUERIES_MAX;
    uint8_t *bytes = make_queries(count);
    struct connections connections;
    struct followed followed;
    struct connection_counts counts;

    begin(&connections);
    followed = send_packet(&connections, true, ACK, FIRST, ANSWER, bytes, count * QUERY_BYTES);
    for (uint32_t i = 0; i < read; i++) {
        assert_true(i == 0 || connection_next(&connections));
        assert_true(is_query(&connections, &followed, i));
    }
    assert_int_equal(connection_next(&connections), count > read);
    if (count > read)
        assert_int_equal(connection_names(&connections, &followed)->state, NAMES_UNREADABLE);
    assert_false(connection_next(&connections));
    counts = connection_counts(&connections);
    assert_int_equal(counts.decided[NAMES_DNS], read);
    assert_int_equal(counts.unreadable[CONNECTION_GAPS], count > read);
    connection_free(&connections);
    free(bytes);
}

static void a_packet_with_more_queries_than_are_read_is_unreadable(void **state) {
    (void)state;
    check_one_packet(QUERIES_MAX);
    check_one_packet(QUERIES_MAX + 1);
}

static void queries_without_end_are_read_in_the_same_memory(void **state) {
    const uint32_t bytes = QUERIES * QUERY_BYTES;
    uint8_t *all = make_queries(QUERIES);
    struct connections connections;
    struct connection_counts counts;

    (void)state;
    begin(&connections);
    for (uint32_t sent = 0; sent < bytes;) {
        const uint32_t part = bytes - sent < PART_BYTES ? bytes - sent : PART_BYTES;
        const struct followed followed =
            send_packet(&connections, true, ACK, FIRST + sent, ANSWER, all + sent, part);
        uint32_t query = sent / QUERY_BYTES;

        sent += part;
        do
            assert_true(is_query(&connections, &followed, query++));
        while (connection_next(&connections));
        assert_int_equal(query, sent / QUERY_BYTES);
        if (sent > LATE_BYTES)
            send_packet(&connections, false, ACK, ANSWER, FIRST + sent - LATE_BYTES, NULL, 0);
    }
    counts = connection_counts(&connections);
    assert_int_equal(counts.decided[NAMES_DNS], QUERIES);
    for (int i = 0; i < CONNECTION_CAUSE_COUNT; i++)
        assert_int_equal(counts.unreadable[i], 0);
    assert_true(connections.pool.used <= CONNECTION_BLOCKS_MAX);
    connection_free(&connections);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_with_more_queries_than_are_read_is_unreadable),
        cmocka_unit_test(queries_without_end_are_read_in_the_same_memory),
    };

    return cmocka_run_group_tests_name("queries", tests, NULL, NULL);
}
