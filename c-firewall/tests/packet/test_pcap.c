// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/pcap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

/// Writes a capture to a file without a name. Returns a path by which it can be opened.
static const char *file_of(const uint8_t *bytes, size_t length) {
    static char path[64];
    FILE *file = tmpfile(); // stays open until the test program ends

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fflush(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    return path;
}

// clang-format off
/// Big-endian pcap file with nanoseconds and raw IP. It has one packet: 4 captured bytes of 60, at
/// 2.000000007 s.
static const uint8_t classic[] = {
    0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 101,
    0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 60, 0x45, 1, 2, 3,
};

/// Section with an interface (microseconds, offset 5 s, snap length 2), an enhanced packet of 4
/// bytes at 1.000001 s, and a simple packet of 9 bytes.
static const uint8_t ng[] = {
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
    1, 0, 0, 0, 36, 0, 0, 0, 101, 0, 0, 0, 2, 0, 0, 0, 14, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 36, 0, 0, 0,
    6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x42, 0x0f, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0x45, 1, 2, 3,
    36, 0, 0, 0,
    3, 0, 0, 0, 20, 0, 0, 0, 9, 0, 0, 0, 0x60, 9, 0, 0, 20, 0, 0, 0,
};

/// Section with an interface, and an enhanced packet of 2 bytes with the comments "no", "twinwall:
/// a" and "twinwall: b".
static const uint8_t commented[] = {
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
    1, 0, 0, 0, 20, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
    6, 0, 0, 0, 76, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0x45, 1, 0, 0,
    1, 0, 2, 0, 'n', 'o', 0, 0, 1, 0, 11, 0, 't', 'w', 'i', 'n', 'w', 'a', 'l', 'l', ':', ' ', 'a', 0,
    1, 0, 11, 0, 't', 'w', 'i', 'n', 'w', 'a', 'l', 'l', ':', ' ', 'b', 0, 76, 0, 0, 0,
};
// clang-format on

static void a_record_has_its_time_and_lengths(void **state) {
    struct failure failure;
    struct pcap_packet packet;
    struct pcap pcap;

    (void)state;
    assert_int_equal(pcap_open(&pcap, file_of(classic, sizeof classic), &failure), 0);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 1);
    assert_int_equal(packet.number, 1);
    assert_int_equal(packet.time_ns, 2000000007);
    assert_int_equal(packet.captured, 4);
    assert_int_equal(packet.original, 60);
    assert_memory_equal(packet.bytes, ((uint8_t[]){0x45, 1, 2, 3}), 4);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 0);
    pcap_close(&pcap);
}

/// A simple packet is cut at the interface's snap length, and has the time of the packet before it.
static void blocks_have_theirs(void **state) {
    struct failure failure;
    struct pcap_packet packet;
    struct pcap pcap;

    (void)state;
    assert_int_equal(pcap_open(&pcap, file_of(ng, sizeof ng), &failure), 0);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 1);
    assert_int_equal(packet.time_ns, 6000001000);
    assert_int_equal(packet.captured, 4);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 1);
    assert_int_equal(packet.number, 2);
    assert_int_equal(packet.time_ns, 6000001000);
    assert_int_equal(packet.captured, 2);
    assert_int_equal(packet.original, 9);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 0);
    pcap_close(&pcap);
}

/// The packet's comment is the first comment that begins with "twinwall:". An option that exceeds
/// its block is damage.
static void a_packet_has_its_comment(void **state) {
    struct failure failure;
    struct pcap_packet packet;
    struct pcap pcap;
    uint8_t damaged[sizeof commented];

    (void)state;
    assert_int_equal(pcap_open(&pcap, file_of(commented, sizeof commented), &failure), 0);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), 1);
    assert_int_equal(packet.comment_bytes, 2);
    assert_memory_equal(packet.comment, " a", 2);
    pcap_close(&pcap);
    memcpy(damaged, commented, sizeof damaged);
    damaged[sizeof damaged - 18] = 13;
    assert_int_equal(pcap_open(&pcap, file_of(damaged, sizeof damaged), &failure), 0);
    assert_int_equal(pcap_next(&pcap, &packet, &failure), -EINVAL);
    assert_non_null(strstr(failure.text, "at byte 48: a packet with a damaged option"));
    pcap_close(&pcap);
}

/// Reads all packets of a capture. Returns 0 at the end of the file, or the -errno of the failure.
static int read_all(const uint8_t *bytes, size_t length) {
    struct failure failure;
    struct pcap_packet packet;
    struct pcap pcap;
    int result = pcap_open(&pcap, file_of(bytes, length), &failure);

    if (result < 0)
        return result;
    do {
        result = pcap_next(&pcap, &packet, &failure);
        // Every captured byte can be read (the sanitizer checks this).
        for (uint32_t i = 0; result > 0 && i < packet.captured; i++)
            assert_true(packet.bytes[i] <= 0xff);
    } while (result > 0);
    pcap_close(&pcap);
    return result;
}

static void no_prefix_of_a_capture_is_read_beyond_its_end(void **state) {
    (void)state;
    for (size_t length = 0; length < sizeof classic; length++)
        assert_int_equal(read_all(classic, length), length == 24 ? 0 : -EINVAL);
    for (size_t length = 0; length < sizeof ng; length++) {
        const bool whole = length == 28 || length == 64 || length == 100;

        assert_int_equal(read_all(ng, length), whole ? 0 : -EINVAL);
    }
}

/// A capture with a changed bit is read or refused, without access to other memory (the tests run
/// with sanitizers).
static void no_byte_leads_astray(void **state) {
    uint8_t bytes[sizeof ng];

    (void)state;
    for (size_t at = 0; at < sizeof ng; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, ng, sizeof ng);
            bytes[at] ^= (uint8_t)(1 << bit);
            read_all(bytes, sizeof bytes);
        }
}

static void link_types_have_their_headers(void **state) {
    static const uint8_t ethernet[60] = {[12] = 0x81, 0, 0, 5, 0x08, 0, 0x45, 0, 0, 21};
    static const uint8_t arp[60] = {[12] = 0x08, 6};
    static const uint8_t version3[60] = {0x30};
    struct pcap_packet packet = {0};

    (void)state;
    assert_true(pcap_link_find_ip(PCAP_LINK_ETHERNET, ethernet, 60, 60, &packet));
    assert_ptr_equal(packet.bytes, ethernet + 18);
    assert_int_equal(packet.captured, 21); // without the padding
    assert_int_equal(packet.original, 21);
    assert_int_equal(packet.version, 4);
    // The link type raw IP does not state the IP version. The frame is longer than the length in
    // the IP header.
    assert_true(pcap_link_find_ip(PCAP_LINK_RAW, ethernet + 18, 42, 62, &packet));
    assert_int_equal(packet.captured, 21);
    assert_int_equal(packet.original, 21);
    assert_int_equal(packet.version, 0);
    assert_true(pcap_link_find_ip(PCAP_LINK_RAW, version3, 60, 80, &packet));
    assert_int_equal(packet.version, 0);
    assert_true(pcap_link_find_ip(PCAP_LINK_IPV4, version3, 60, 80, &packet));
    assert_int_equal(packet.version, 4);
    assert_true(pcap_link_find_ip(PCAP_LINK_IPV6, version3, 60, 80, &packet));
    assert_int_equal(packet.version, 6);
    assert_false(pcap_link_find_ip(PCAP_LINK_ETHERNET, arp, 60, 60, &packet));
    assert_false(pcap_link_find_ip(PCAP_LINK_ETHERNET, ethernet, 13, 60, &packet));
    assert_false(pcap_link_find_ip(PCAP_LINK_ETHERNET, ethernet, 17, 60, &packet));
    assert_true(pcap_link_find_ip(PCAP_LINK_NULL, (const uint8_t *)"\0\0\0\x1e", 4, 4, &packet));
    assert_int_equal(packet.version, 6);
    assert_true(pcap_link_find_ip(PCAP_LINK_NULL, (const uint8_t *)"\2\0\0\0", 4, 4, &packet));
    assert_int_equal(packet.version, 4);
    assert_false(pcap_link_find_ip(PCAP_LINK_NULL, (const uint8_t *)"\0\0\0\x1d", 4, 4, &packet));
    assert_false(pcap_link_find_ip(105, ethernet, 60, 60, &packet));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_its_time_and_lengths),
        cmocka_unit_test(blocks_have_theirs),
        cmocka_unit_test(a_packet_has_its_comment),
        cmocka_unit_test(no_prefix_of_a_capture_is_read_beyond_its_end),
        cmocka_unit_test(no_byte_leads_astray),
        cmocka_unit_test(link_types_have_their_headers),
    };

    return cmocka_run_group_tests_name("pcap", tests, NULL, NULL);
}
