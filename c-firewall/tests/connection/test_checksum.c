// SPDX-License-Identifier: GPL-2.0-or-later
// Checksums that the firewall writes itself, and datagrams that a checksum written later may
// change.
#include "connection/checksum.h"

#include <string.h>

#include "names/quic.h"
#include "test.h"

enum {
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    PACKET_MAX = 64,
};

static const uint8_t ipv4[IPV4_BYTES] = {0x45, 0, 0,   0, 0, 0, 0,   0, 64, 0,
                                         0,    0, 192, 0, 2, 1, 192, 0, 2,  2};
static const uint8_t ipv6[IPV6_BYTES] = {
    0x60, 0, 0, 0, 0,    0, 0,    64,   0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
    0,    0, 0, 1, 0x20, 1, 0x0d, 0xb8, 0,    0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 2};
static const uint8_t tcp[] = {0x9c, 0x40, 1,    0xbb, 0,    0,    0, 1, 0,   0,   0,  2,
                              0x50, 0x18, 0xfa, 0xf0, 0x11, 0x11, 0, 0, 'a', 'b', 'c'};
static const uint8_t udp[] = {0x9c, 0x40, 0, 53, 0, 11, 0x11, 0x11, 'a', 'b', 'c'};

/// Returns a packet of IPv4, or of IPv6.
/// - bytes: out: bytes of the packet, to which the result points.
static struct packet packet_of(bool is_6, uint8_t protocol, const uint8_t *layer4, uint8_t length,
                               uint8_t bytes[PACKET_MAX]) {
    const uint8_t head = is_6 ? IPV6_BYTES : IPV4_BYTES;
    struct packet packet;

    memcpy(bytes, is_6 ? ipv6 : ipv4, head);
    memcpy(bytes + head, layer4, length);
    bytes[is_6 ? 5 : 3] = is_6 ? length : (uint8_t)(head + length);
    bytes[is_6 ? 6 : 9] = protocol;
    packet_parse(bytes, head + length, head + length, &packet);
    return packet;
}

static void assert_checksum(const struct packet *packet, uint32_t place, uint16_t checksum) {
    uint16_t told_checksum = 0;
    uint32_t told_place = 0;

    assert_true(checksum_correct(packet, &told_place, &told_checksum));
    assert_int_equal(told_place, place);
    assert_int_equal(told_checksum, checksum);
}

static void the_checksum_is_that_of_the_rfcs(void **state) {
    uint8_t bytes[PACKET_MAX];
    struct packet packet;

    (void)state;
    packet = packet_of(false, 6, tcp, sizeof tcp, bytes);
    assert_checksum(&packet, 36, 0xce73);
    packet = packet_of(false, 17, udp, sizeof udp, bytes);
    assert_checksum(&packet, 26, 0x1afc);
    packet = packet_of(true, 6, tcp, sizeof tcp, bytes);
    assert_checksum(&packet, 56, 0xf702);
    packet = packet_of(true, 17, udp, sizeof udp, bytes);
    assert_checksum(&packet, 46, 0x438b);
}

static void a_datagram_without_a_checksum_stays_so(void **state) {
    static const uint8_t none[] = {0x9c, 0x40, 0, 53, 0, 8, 0, 0};
    static const uint8_t zero[] = {0x9c, 0x40, 0, 53, 0, 10, 0x11, 0x11, 0xdf, 0x60};
    uint8_t bytes[PACKET_MAX];
    struct packet packet;

    (void)state;
    packet = packet_of(false, 17, none, sizeof none, bytes);
    assert_checksum(&packet, 26, 0);
    packet = packet_of(false, 17, zero, sizeof zero, bytes);
    assert_checksum(&packet, 26, 0xffff);
}

static void a_packet_that_was_cut_has_none(void **state) {
    uint8_t bytes[PACKET_MAX];
    struct packet packet = packet_of(false, 6, tcp, sizeof tcp, bytes);
    uint16_t checksum;
    uint32_t place;

    (void)state;
    packet_parse(bytes, IPV4_BYTES + sizeof tcp - 1, IPV4_BYTES + sizeof tcp, &packet);
    assert_false(checksum_correct(&packet, &place, &checksum));
}

static void two_bytes_may_make_a_packet_of_quic(void **state) {
    static const struct {
        uint8_t bytes[5];
        bool is_near;
    } starts[] = {
        {{0xc0, 0, 0, 0, 1}, true},
        {{0x40, 0, 0, 0, 1}, true},
        {{0x40, 9, 0, 0, 1}, true},
        {{0xc0, 9, 9, 0, 1}, true},
        {{0xc0, 0, 9, 9, 1}, true},
        {{0xc0, 0, 0, 9, 9}, true},
        {{0xc0, 0x6b, 0x33, 0x43, 0xff}, true},
        {{0xc0, 0xff, 0, 0, 0x1f}, true},
        {{0x40, 0, 9, 0, 1}, false},
        {{0xc0, 9, 0, 9, 1}, false},
        {{0xc0, 0x1a, 0x2a, 0x3a, 0x4a}, false},
        // VXLAN with the network 1, Geneve with Ethernet
        {{0x08, 0, 0, 0, 0}, false},
        {{0, 0, 0x65, 0x58, 0}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        assert_int_equal(names_quic_is_near(starts[i].bytes, 5), starts[i].is_near);
    assert_false(names_quic_is_near(starts[0].bytes, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_that_of_the_rfcs),
        cmocka_unit_test(a_datagram_without_a_checksum_stays_so),
        cmocka_unit_test(a_packet_that_was_cut_has_none),
        cmocka_unit_test(two_bytes_may_make_a_packet_of_quic),
    };

    return cmocka_run_group_tests_name("checksum", tests, NULL, NULL);
}
