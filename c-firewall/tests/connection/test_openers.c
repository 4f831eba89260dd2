// SPDX-License-Identifier: GPL-2.0-or-later
// Flows with port 53: the end that opened one, for as long as it lasts, and when there is no room.
#include "connection/openers.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

enum {
    PORTS = 40000, // ports of a client, with more flows than there is room for
    FIRST_PORT = 10000,
    PACKET_BYTES = 28,
    HOST = 1,  // last byte of the client's address
    OTHER = 2, // last byte of another client's address
};

#define SECOND_NS 1000000000ULL
/// Returns the metadata of a packet between processes of this host, at a time in seconds.
#define AT(seconds) ((struct connection_input){.now_ns = (seconds)*SECOND_NS})

/// Returns a UDP packet between a client's port and port 53 of the server.
/// - host: last byte of the client's address.
/// - bytes: out: bytes of the packet, to which the result points.
static struct packet packet_of(uint8_t host, uint16_t port, bool from_server,
                               uint8_t bytes[PACKET_BYTES]) {
    static const uint8_t head[12] = {0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0};
    const uint8_t client[4] = {10, 0, 0, host}, server[4] = {10, 0, 0, 53};
    const uint8_t client_port[2] = {(uint8_t)(port >> 8), (uint8_t)port}, server_port[2] = {0, 53};
    const uint8_t length[4] = {0, 8, 0, 0};
    struct packet packet;

    memcpy(bytes, head, sizeof head);
    memcpy(bytes + 12, from_server ? server : client, 4);
    memcpy(bytes + 16, from_server ? client : server, 4);
    memcpy(bytes + 20, from_server ? server_port : client_port, 2);
    memcpy(bytes + 22, from_server ? client_port : server_port, 2);
    memcpy(bytes + 24, length, 4);
    packet_parse(bytes, PACKET_BYTES, PACKET_BYTES, &packet);
    return packet;
}

static struct openers *made(void) {
    struct openers *openers = calloc(1, sizeof *openers);

    openers_make(openers);
    return openers;
}

/// Passes a packet from port 53 of the server to a client to `openers`.
static void tell(struct openers *openers, uint8_t host, uint16_t port,
                 struct connection_input input) {
    uint8_t bytes[PACKET_BYTES];
    const struct packet packet = packet_of(host, port, true, bytes);

    openers_note(openers, &packet, &input);
}

/// Passes a packet from a client to port 53 of the server to `openers`. Returns true if `openers`
/// then reports that the client opened the flow.
static bool ask(struct openers *openers, uint8_t host, uint16_t port,
                struct connection_input input) {
    uint8_t bytes[PACKET_BYTES];
    const struct packet packet = packet_of(host, port, false, bytes);

    openers_note(openers, &packet, &input);
    return openers_is_clients(openers, &packet, &input);
}

static void the_first_packet_opens_a_flow(void **state) {
    struct openers *openers = made();

    (void)state;
    assert_true(ask(openers, HOST, 4000, AT(1)));
    tell(openers, HOST, 4000, AT(1));
    assert_true(ask(openers, HOST, 4000, AT(2)));
    tell(openers, HOST, 4001, AT(1));
    assert_false(ask(openers, HOST, 4001, AT(1)));
    assert_false(ask(openers, HOST, 4001, AT(2)));
    assert_true(ask(openers, HOST, 4002, AT(2)));
    assert_true(ask(openers, OTHER, 4001, AT(2)));
    free(openers);
}

static void a_flow_lasts_from_its_last_packet(void **state) {
    static const struct {
        uint64_t told, said, asked; // seconds; said: the client's other packet
        bool expected;
    } cases[] = {{1, 1, 180, false}, {1, 1, 181, true}, {1, 100, 279, false}, {1, 100, 280, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct openers *openers = made();

        tell(openers, HOST, 4000, AT(cases[i].told));
        ask(openers, HOST, 4000, AT(cases[i].said));
        assert_int_equal(ask(openers, HOST, 4000, AT(cases[i].asked)), cases[i].expected);
        free(openers);
    }
}

static void a_forgotten_client_opens_nothing(void **state) {
    struct openers *openers = made();

    (void)state;
    assert_true(ask(openers, HOST, 4000, AT(1)));
    tell(openers, HOST, 4000, AT(180));
    assert_true(ask(openers, HOST, 4000, AT(180)));
    tell(openers, HOST, 4000, AT(360));
    assert_false(ask(openers, HOST, 4000, AT(360)));
    free(openers);
}

static void a_flow_with_two_ports_53_is_of_its_first_end(void **state) {
    uint8_t bytes[PACKET_BYTES], back_bytes[PACKET_BYTES];
    const struct packet packet = packet_of(HOST, 53, false, bytes);
    const struct packet back = packet_of(HOST, 53, true, back_bytes);
    const struct connection_input input = AT(1);
    struct openers *openers = made();

    (void)state;
    openers_note(openers, &packet, &input);
    openers_note(openers, &back, &input);
    assert_true(openers_is_clients(openers, &packet, &input));
    assert_false(openers_is_clients(openers, &back, &input));
    free(openers);
}

static void a_client_of_another_interface_opens_nothing(void **state) {
    enum { ANY = CONNECTION_INTERFACE_UNKNOWN };
    static const struct {
        uint32_t forged_in, forged_out, told_in, told_out, asked_in;
        bool expected;
    } cases[] = {
        {2, 3, 3, 2, 2, true},     {3, 3, 3, 2, 2, false},  {3, ANY, 3, ANY, 2, false},
        {2, ANY, 3, ANY, 2, true}, {0, ANY, 3, 0, 0, true}, {3, ANY, 3, 0, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct openers *openers = made();
        struct connection_input forged = AT(1), told = AT(1), asked = AT(1);

        forged.source_interface = cases[i].forged_in;
        forged.sink_interface = cases[i].forged_out;
        told.source_interface = cases[i].told_in;
        told.sink_interface = cases[i].told_out;
        asked.source_interface = cases[i].asked_in;
        asked.sink_interface = cases[i].told_in;
        ask(openers, HOST, 4000, forged);
        tell(openers, HOST, 4000, told);
        assert_int_equal(ask(openers, HOST, 4000, asked), cases[i].expected);
        free(openers);
    }
}

static void many_flows_of_a_service_leave_room_for_other_clients(void **state) {
    uint8_t bytes[PACKET_BYTES];
    struct packet packet = packet_of(HOST, 443, true, bytes);
    const struct connection_input input = AT(1);
    struct openers *openers = made();

    (void)state;
    for (int i = 0; i < PORTS; i++) {
        bytes[14] = (uint8_t)(i >> 8);
        bytes[15] = (uint8_t)i;
        openers_note(openers, &packet, &input);
    }
    assert_false(ask(openers, HOST, 443, AT(1)));
    for (uint16_t port = FIRST_PORT; port < FIRST_PORT + PORTS; port++)
        assert_true(ask(openers, HOST, port, AT(1)));
    free(openers);
}

static void without_room_no_client_opens_a_flow(void **state) {
    struct openers *openers = made();

    (void)state;
    for (uint16_t port = 4000; port < 4100; port++)
        assert_true(ask(openers, HOST, port, AT(1)));
    for (uint16_t port = FIRST_PORT; port < FIRST_PORT + PORTS; port++)
        tell(openers, HOST, port, AT(1));
    for (uint16_t port = FIRST_PORT; port < FIRST_PORT + PORTS; port++)
        assert_false(ask(openers, HOST, port, AT(180)));
    for (uint16_t port = 4000; port < 4100; port++)
        assert_true(ask(openers, HOST, port, AT(180)));
    for (uint16_t port = 4000; port < 4100; port++)
        assert_false(ask(openers, OTHER, port, AT(180)));
    for (uint16_t port = 4000; port < 4100; port++)
        assert_true(ask(openers, OTHER, port, AT(181)));
    free(openers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_packet_opens_a_flow),
        cmocka_unit_test(a_flow_lasts_from_its_last_packet),
        cmocka_unit_test(a_forgotten_client_opens_nothing),
        cmocka_unit_test(a_flow_with_two_ports_53_is_of_its_first_end),
        cmocka_unit_test(a_client_of_another_interface_opens_nothing),
        cmocka_unit_test(many_flows_of_a_service_leave_room_for_other_clients),
        cmocka_unit_test(without_room_no_client_opens_a_flow),
    };

    return cmocka_run_group_tests_name("openers", tests, NULL, NULL);
}
