// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/reject.h"

#include <string.h>

#include "test.h"

static const struct policy_reject reset = {POLICY_REJECT_TCP_RESET, 0};
static const struct policy_reject host = {POLICY_REJECT_ICMP, 1};
static const struct policy_reject policy_fail = {POLICY_REJECT_ICMPV6, 5};

static size_t build(const struct policy_reject *how, const uint8_t *bytes, uint32_t captured,
                    uint32_t original, uint8_t reply[static REJECT_IPV6_MAX]) {
    struct packet packet;

    packet_parse(bytes, captured, original, &packet);
    return reject_build(how, &packet, reply);
}

// clang-format off
/// SYN from 10.0.0.1:1024 to 10.0.0.2:80, with sequence number 0x01020304 and 2 bytes of data.
static const uint8_t syn[42] = {
    0x45, 0, 0, 42, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    4, 0, 0, 80, 1, 2, 3, 4, 9, 9, 9, 9, 0x50, 2, 1, 0, 0, 0, 0, 0, 'h', 'i',
};

/// UDP datagram from fd00::1 to fd00::2.
static const uint8_t datagram6[48] = {
    0x60, 0, 0, 0, 0, 8, 17, 64,
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    4, 0, 0, 53, 0, 8, 0, 0,
};
// clang-format on

/// A RST to a segment without ACK acknowledges its SYN (1) and its data (2 bytes).
static void a_reset_acknowledges_a_syn(void **state) {
    static const uint8_t expected[] = {0, 80, 4,    0,    0, 0, 0,    0,    1, 2,
                                       3, 7,  0x50, 0x14, 0, 0, 0x91, 0x80, 0, 0};
    uint8_t reply[REJECT_IPV6_MAX];

    (void)state;
    assert_int_equal(build(&reset, syn, sizeof syn, sizeof syn, reply), 40);
    assert_int_equal(reply[0], 0x45);
    assert_memory_equal(reply + 12, ((uint8_t[]){10, 0, 0, 2, 10, 0, 0, 1}), 8);
    assert_memory_equal(reply + 20, expected, 16);
    assert_int_equal(reply[8], 64);
    assert_int_equal(reply[6], 0x40); // flag "don't fragment"
}

/// A RST to a segment with ACK has the acknowledgement number as its sequence number, and
/// acknowledges nothing.
static void a_reset_of_an_acknowledging_segment(void **state) {
    uint8_t reply[REJECT_IPV6_MAX], bytes[sizeof syn];

    (void)state;
    memcpy(bytes, syn, sizeof bytes);
    bytes[33] = 0x10;
    assert_int_equal(build(&reset, bytes, sizeof bytes, sizeof bytes, reply), 40);
    assert_memory_equal(reply + 24, ((uint8_t[]){9, 9, 9, 9, 0, 0, 0, 0, 0x50, 4}), 10);
    bytes[33] = 0x14;
    assert_int_equal(build(&reset, bytes, sizeof bytes, sizeof bytes, reply), 0);
}

/// Returns the checksum's sum of a message and its pseudo header; 0xffff if the checksum is right.
/// - bytes: the message; before it the addresses of its pseudo header, if it has one.
/// - sum: sum of protocol and length in the pseudo header; 0 without a pseudo header.
static uint16_t sum(const uint8_t *bytes, size_t length, uint32_t sum) {
    for (size_t i = 0; i < length; i++)
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/// A RST to the receiver has the packet's addresses and ports, and a given sequence number.
static void a_reset_to_the_receiver(void **state) {
    static const uint8_t expected[] = {4, 0, 0, 80, 10, 11, 12, 13, 0, 0, 0, 0, 0x50, 4, 0, 0};
    uint8_t bytes[sizeof syn], segment6[60], resets[2][REJECT_IPV6_MAX];
    struct packet packet;

    (void)state;
    packet_parse(syn, sizeof syn, sizeof syn, &packet);
    assert_int_equal(reject_build_onward(&packet, 0x0a0b0c0d, resets[0]), 40);
    assert_memory_equal(resets[0] + 12, syn + 12, 8);
    assert_memory_equal(resets[0] + 20, expected, sizeof expected);
    assert_int_equal(sum(resets[0], 20, 0), 0xffff);
    assert_int_equal(sum(resets[0] + 12, 28, 6 + 20), 0xffff);
    memcpy(segment6, datagram6, 40);
    memcpy(segment6 + 40, syn + 20, 20);
    segment6[5] = 20;
    segment6[6] = 6;
    segment6[53] = 0x10;
    packet_parse(segment6, sizeof segment6, sizeof segment6, &packet);
    assert_int_equal(reject_build_onward(&packet, 0x0a0b0c0d, resets[1]), 60);
    assert_memory_equal(resets[1] + 8, segment6 + 8, 32);
    assert_memory_equal(resets[1] + 40, expected, sizeof expected);
    assert_int_equal(sum(resets[1] + 8, 52, 6 + 20), 0xffff);
    memcpy(bytes, syn, sizeof bytes);
    bytes[33] |= 4;
    packet_parse(bytes, sizeof bytes, sizeof bytes, &packet);
    assert_int_equal(reject_build_onward(&packet, 0, resets[0]), 0); // answer to a RST
    packet_parse(datagram6, sizeof datagram6, sizeof datagram6, &packet);
    assert_int_equal(reject_build_onward(&packet, 0, resets[0]), 0);
}

static void a_reset_to_the_sender_of_one_is_sent_back(void **state) {
    static const uint8_t expected[] = {0, 80, 4, 0, 10, 11, 12, 13, 0, 0, 0, 0, 0x50, 4, 0, 0};
    uint8_t bytes[sizeof syn], reset[REJECT_IPV6_MAX];
    struct packet packet;

    (void)state;
    memcpy(bytes, syn, sizeof bytes);
    bytes[33] = 4;
    packet_parse(bytes, sizeof bytes, sizeof bytes, &packet);
    assert_int_equal(reject_build_back(&packet, 0x0a0b0c0d, reset), 40);
    assert_memory_equal(reset + 12, syn + 16, 4);
    assert_memory_equal(reset + 16, syn + 12, 4);
    assert_memory_equal(reset + 20, expected, sizeof expected);
    assert_int_equal(sum(reset + 12, 28, 6 + 20), 0xffff);
    packet_parse(datagram6, sizeof datagram6, sizeof datagram6, &packet);
    assert_int_equal(reject_build_back(&packet, 0, reset), 0);
}

static void checksums_are_right(void **state) {
    uint8_t reply[REJECT_IPV6_MAX];
    size_t length;

    (void)state;
    build(&reset, syn, sizeof syn, sizeof syn, reply);
    assert_int_equal(sum(reply, 20, 0), 0xffff);
    assert_int_equal(sum(reply + 12, 28, 6 + 20), 0xffff);
    length = build(&host, syn, sizeof syn, sizeof syn, reply);
    assert_int_equal(sum(reply + 20, length - 20, 0), 0xffff);
    length = build(&policy_fail, datagram6, sizeof datagram6, sizeof datagram6, reply);
    assert_int_equal(sum(reply + 8, length - 8, (uint32_t)(58 + length - 40)), 0xffff);
}

static void an_error_quotes_the_packet(void **state) {
    uint8_t reply[REJECT_IPV6_MAX], bytes[2000] = {0};

    (void)state;
    memcpy(bytes, syn, sizeof syn);
    bytes[2] = 2000 >> 8;
    bytes[3] = 2000 & 0xff;
    assert_int_equal(build(&host, syn, sizeof syn, sizeof syn, reply), 28 + sizeof syn);
    assert_memory_equal(reply + 20, ((uint8_t[]){3, 1}), 2);
    assert_memory_equal(reply + 28, syn, sizeof syn);
    assert_int_equal(build(&host, bytes, 2000, 2000, reply), REJECT_IPV4_MAX);
    assert_int_equal(build(&host, bytes, 100, 2000, reply), 128);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, datagram6, sizeof datagram6);
    bytes[4] = (2000 - 40) >> 8;
    bytes[5] = (2000 - 40) & 0xff;
    assert_int_equal(build(&policy_fail, bytes, 2000, 2000, reply), REJECT_IPV6_MAX);
    assert_memory_equal(reply + 40, ((uint8_t[]){1, 5}), 2);
}

static void icmpx_has_a_code_of_each_family(void **state) {
    static const uint8_t codes[][3] = {{0, 0, 0}, {1, 3, 4}, {2, 1, 3}, {3, 13, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const struct policy_reject how = {POLICY_REJECT_ICMPX, codes[i][0]};

        assert_int_equal(reject_code(&how, 4), codes[i][1]);
        assert_int_equal(reject_code(&how, 6), codes[i][2]);
    }
    assert_int_equal(reject_code(&host, 4), 1);
}

/// Checks that a packet gets a reply, but gets none after the byte at the offset `at` was changed
/// to `byte`.
static void assert_not_due(const struct policy_reject *how, const uint8_t *bytes, uint32_t length,
                           size_t at, uint8_t byte) {
    uint8_t reply[REJECT_IPV6_MAX], changed[64];

    memcpy(changed, bytes, length);
    assert_true(build(how, changed, length, length, reply) > 0);
    changed[at] = byte;
    assert_int_equal(build(how, changed, length, length, reply), 0);
}

static void what_gets_no_answer(void **state) {
    uint8_t reply[REJECT_IPV6_MAX], echo[48];

    (void)state;
    assert_not_due(&host, syn, sizeof syn, 16, 224); // to a multicast address
    assert_not_due(&host, syn, sizeof syn, 12, 224); // from one
    assert_not_due(&host, syn, sizeof syn, 7, 1);    // a later fragment
    assert_not_due(&reset, syn, sizeof syn, 9, 17);  // no TCP
    assert_not_due(&policy_fail, datagram6, 48, 24, 0xff);
    assert_not_due(&policy_fail, datagram6, 48, 8, 0xff);
    assert_int_equal(build(&policy_fail, syn, sizeof syn, sizeof syn, reply), 0);
    assert_int_equal(build(&host, datagram6, 48, 48, reply), 0);
    assert_int_equal(build(&reset, syn, 39, sizeof syn, reply), 0); // its header is cut off
    assert_int_equal(build(&host, syn, 19, sizeof syn, reply), 0);
    memcpy(echo, datagram6, sizeof echo);
    echo[6] = 58;
    echo[40] = 128;
    assert_not_due(&policy_fail, echo, sizeof echo, 40, 127); // an ICMPv6 error
}

static void icmp_errors_get_no_answer(void **state) {
    static const uint8_t replied[] = {0, 8, 13, 14, 15, 16, 17, 18};
    uint8_t reply[REJECT_IPV6_MAX],
        bytes[28] = {0x45, 0, 0, 28, [8] = 64, 1, [12] = 10, 0, 0, 1, 10, 0, 0, 2};

    (void)state;
    for (int type = 0; type < 256; type++) {
        bytes[20] = (uint8_t)type;
        assert_int_equal(build(&host, bytes, sizeof bytes, sizeof bytes, reply) > 0,
                         memchr(replied, type, sizeof replied) != NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reset_acknowledges_a_syn),
        cmocka_unit_test(a_reset_of_an_acknowledging_segment),
        cmocka_unit_test(a_reset_to_the_receiver),
        cmocka_unit_test(a_reset_to_the_sender_of_one_is_sent_back),
        cmocka_unit_test(checksums_are_right),
        cmocka_unit_test(an_error_quotes_the_packet),
        cmocka_unit_test(icmpx_has_a_code_of_each_family),
        cmocka_unit_test(what_gets_no_answer),
        cmocka_unit_test(icmp_errors_get_no_answer),
    };

    return cmocka_run_group_tests_name("reject", tests, NULL, NULL);
}
