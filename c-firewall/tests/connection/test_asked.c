// SPDX-License-Identifier: GPL-2.0-or-later
// Tests pending queries: only the right answer finds one, once and in time, and the oldest are
// replaced in a full table.
#include "connection/asked.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

enum {
    QUESTIONS = 10000, // number of questions, larger than the table
    NEWEST = 500,      // number of newest questions, none of which can have been replaced
    PACKET_BYTES = 28,
};

#define SECOND_NS 1000000000ULL
/// Returns the metadata of a packet between processes of this host, at a time.
#define AT(now) ((struct connection_input){.now_ns = (now)})

/// Returns a UDP packet from or to the server.
/// - port: port of the client.
/// - bytes: out: bytes of the packet, to which the result points.
static struct packet packet_of(uint16_t port, bool from_server, uint8_t bytes[PACKET_BYTES]) {
    static const uint8_t head[PACKET_BYTES] = {0x45, 0, 0,  28, 0, 0,  0, 0, 64, 17, 0, 0, 10, 0,
                                               0,    1, 10, 0,  0, 53, 0, 0, 0,  53, 0, 8, 0,  0};
    struct packet packet;

    memcpy(bytes, head, PACKET_BYTES);
    bytes[20] = (uint8_t)(port >> 8);
    bytes[21] = (uint8_t)port;
    if (from_server) {
        memcpy(bytes + 12, head + 16, 4);
        memcpy(bytes + 16, head + 12, 4);
        memcpy(bytes + 22, bytes + 20, 2);
        memcpy(bytes + 20, head + 22, 2);
    }
    packet_parse(bytes, PACKET_BYTES, PACKET_BYTES, &packet);
    return packet;
}

static struct answer message(uint16_t id, bool is_answer) {
    return (struct answer){.id = id,
                           .is_answer = is_answer,
                           .dns_type = 1,
                           .class = 1,
                           .host = {.length = 9, .bytes = "a.example"}};
}

static void a_question_is_answered_once(void **state) {
    uint8_t query_bytes[PACKET_BYTES], told_bytes[PACKET_BYTES], other_bytes[PACKET_BYTES];
    const struct packet query = packet_of(4000, false, query_bytes);
    const struct packet told = packet_of(4000, true, told_bytes);
    const struct packet elsewhere = packet_of(4001, true, other_bytes);
    const struct answer right = message(7, true), asks = message(7, false);
    struct answer others[4] = {right, right, right, right};
    struct asked *asked = asked_make();

    (void)state;
    assert_false(asked_remove(asked, &told, &right, &AT(1)));
    asked_note(asked, &query, &asks, &AT(1));
    asked_note(asked, &query, &asks, &AT(2)); // the client sends its query again
    others[0].id = 8;
    others[1].dns_type = 28;
    others[2].class = 3;
    others[3].host.bytes[0] = 'b';
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(asked_remove(asked, &told, &others[i], &AT(3)));
    assert_false(asked_remove(asked, &query, &right, &AT(3)));
    assert_false(asked_remove(asked, &elsewhere, &right, &AT(3)));
    assert_true(asked_remove(asked, &told, &right, &AT(3)));
    assert_false(asked_remove(asked, &told, &right, &AT(3)));
    free(asked);
}

static void a_question_waits_for_ten_seconds(void **state) {
    static const struct {
        uint64_t seconds;
        bool expected;
    } cases[] = {{9, true}, {10, false}, {11, false}};
    uint8_t query_bytes[PACKET_BYTES], told_bytes[PACKET_BYTES];
    const struct packet query = packet_of(4000, false, query_bytes);
    const struct packet told = packet_of(4000, true, told_bytes);
    const struct answer right = message(7, true), asks = message(7, false);
    struct asked *asked = asked_make();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked_note(asked, &query, &asks, &AT(SECOND_NS));
        assert_int_equal(
            asked_remove(asked, &told, &right, &AT(SECOND_NS + cases[i].seconds * SECOND_NS)),
            cases[i].expected);
    }
    free(asked);
}

static void an_answer_comes_from_where_its_question_went(void **state) {
    enum { ANY = CONNECTION_INTERFACE_UNKNOWN };
    static const struct {
        uint32_t asked_in, asked_out, told_in, told_out;
        bool expected;
    } cases[] = {
        {2, 3, 3, 2, true},     {2, 3, 2, 2, false},    {2, 3, 3, 4, false},
        {2, 3, 0, 2, false},    {2, ANY, 3, ANY, true}, {2, ANY, 2, ANY, false},
        {0, ANY, 0, ANY, true}, {0, 3, 3, 0, true},     {0, 3, 0, 0, false},
        {2, 2, 2, 2, true},
    };
    uint8_t query_bytes[PACKET_BYTES], told_bytes[PACKET_BYTES];
    const struct packet query = packet_of(4000, false, query_bytes);
    const struct packet told = packet_of(4000, true, told_bytes);
    const struct answer right = message(7, true), asks = message(7, false);
    struct asked *asked = asked_make();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct connection_input input = AT(1);

        input.source_interface = cases[i].asked_in;
        input.sink_interface = cases[i].asked_out;
        asked_note(asked, &query, &asks, &input);
        input.source_interface = cases[i].told_in;
        input.sink_interface = cases[i].told_out;
        assert_int_equal(asked_remove(asked, &told, &right, &input), cases[i].expected);
    }
    free(asked);
}

static void the_oldest_questions_make_room(void **state) {
    uint8_t query_bytes[PACKET_BYTES], told_bytes[PACKET_BYTES];
    const struct packet query = packet_of(4000, false, query_bytes);
    const struct packet told = packet_of(4000, true, told_bytes);
    struct asked *asked = asked_make();
    int left = 0;

    (void)state;
    for (uint16_t id = 0; id < QUESTIONS; id++) {
        const struct answer asks = message(id, false);

        asked_note(asked, &query, &asks, &AT(id + 1U));
    }
    for (uint16_t id = 0; id < QUESTIONS; id++) {
        const struct answer right = message(id, true);
        const bool is_there = asked_remove(asked, &told, &right, &AT(1));

        assert_true(is_there || id < QUESTIONS - NEWEST);
        left += is_there;
    }
    assert_in_range(left, 3500, 4096);
    free(asked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_answered_once),
        cmocka_unit_test(a_question_waits_for_ten_seconds),
        cmocka_unit_test(an_answer_comes_from_where_its_question_went),
        cmocka_unit_test(the_oldest_questions_make_room),
    };

    return cmocka_run_group_tests_name("asked", tests, NULL, NULL);
}
