// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/packet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "vectors.h"

/// Writes a packet's status and fields in the format of the vectors' line "expect".
static void describe(enum packet_status status, const struct packet *packet,
                     char text[static VECTOR_EXPECT_BYTES]) {
    char ports[16] = "-", flags[8] = "-", icmp[8] = "-";

    if (packet->has_ports)
        snprintf(ports, sizeof ports, "%u>%u", packet->source_port, packet->destination_port);
    if (packet->has_tcp_flags)
        snprintf(flags, sizeof flags, "0x%02x", packet->tcp_flags);
    if (packet->has_icmp)
        snprintf(icmp, sizeof icmp, "%u/%u", packet->icmp_type, packet->icmp_code);
    snprintf(text, VECTOR_EXPECT_BYTES,
             "status=%s version=%u protocol=%u fragment=%d later=%d l4=%u end=%u ports=%s "
             "flags=%s icmp=%s",
             packet_status_name(status), packet->version, packet->protocol, packet->fragment,
             packet->later_fragment, packet->l4_offset, packet->end, ports, flags, icmp);
}

static void vectors_parse_as_expected(void **state) {
    FILE *file = vectors_open("packets.txt");
    struct vector vector = {0};
    int vectors = 0, wrong = 0;

    (void)state;
    for (; vectors_next(file, &vector); vectors++) {
        struct packet packet;
        char got[VECTOR_EXPECT_BYTES];

        describe(
            packet_parse(vector.bytes, (uint32_t)vector.length, (uint32_t)vector.original, &packet),
            &packet, got);
        if (strcmp(got, vector.expect) == 0)
            continue;
        print_error("%s\n  expected %s\n  got      %s\n", vector.name, vector.expect, got);
        wrong++;
    }
    free(vector.bytes);
    fclose(file);
    assert_int_equal(wrong, 0);
    assert_true(vectors > 100);
}

/// Writes the transport header that nf_tables sees, in the format of the vectors' line "expect".
static void describe_transport(const struct packet *packet, char text[static VECTOR_EXPECT_BYTES]) {
    static const char *const names[] = {"hbh", "rt", "frag", "dst", "mh"};
    char protocol[8] = "-", extensions[32] = "";

    if (packet->has_transport)
        snprintf(protocol, sizeof protocol, "%u", packet->transport_protocol);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(packet->extensions & 1U << i))
            continue;
        if (extensions[0])
            strcat(extensions, ",");
        strcat(extensions, names[i]);
    }
    snprintf(text, VECTOR_EXPECT_BYTES, "transport=%s at=%u extensions=%s", protocol,
             packet->transport_offset, extensions[0] ? extensions : "-");
}

static void transport_is_what_nf_tables_sees(void **state) {
    FILE *file = vectors_open("transport.txt");
    struct vector vector = {0};
    int vectors = 0;

    (void)state;
    for (; vectors_next(file, &vector); vectors++) {
        struct packet packet;
        char got[VECTOR_EXPECT_BYTES];

        packet_parse(vector.bytes, (uint32_t)vector.length, (uint32_t)vector.original, &packet);
        describe_transport(&packet, got);
        if (strcmp(got, vector.expect) != 0)
            print_error("%s\n", vector.name);
        assert_string_equal(got, vector.expect);
    }
    free(vector.bytes);
    fclose(file);
    assert_true(vectors > 25);
}

/// A valid packet is never malformed if fewer of its bytes are captured: its status is ok or
/// beyond-copy. The parser reads only the captured bytes (the sanitizer checks this).
static void every_cut_of_a_good_packet_is_ok_or_cut(void **state) {
    FILE *file = vectors_open("packets.txt");
    struct vector vector = {0};
    int cuts = 0;

    (void)state;
    while (vectors_next(file, &vector)) {
        const size_t original = vector.original > vector.length ? vector.original : vector.length;

        if (strncmp(vector.expect, "status=ok ", 10) != 0)
            continue;
        for (size_t captured = 0; captured < vector.length; captured++, cuts++) {
            uint8_t *bytes = malloc(captured ? captured : 1);
            struct packet packet;

            memcpy(bytes, vector.bytes, captured);
            assert_in_range(packet_parse(bytes, (uint32_t)captured, (uint32_t)original, &packet),
                            PACKET_OK, PACKET_BEYOND_COPY);
            free(bytes);
        }
    }
    fclose(file);
    assert_true(cuts > 1000);
}

static void malformed_is_all_from_empty_on(void **state) {
    (void)state;
    assert_false(packet_is_malformed(PACKET_OK));
    assert_false(packet_is_malformed(PACKET_BEYOND_COPY));
    for (int status = PACKET_EMPTY; status < PACKET_STATUS_COUNT; status++)
        assert_true(packet_is_malformed((enum packet_status)status));
}

static void names_are_those_of_the_reports(void **state) {
    (void)state;
    assert_string_equal(packet_status_name(PACKET_OK), "ok");
    assert_string_equal(packet_status_name(PACKET_BEYOND_COPY), "beyond-copy");
    assert_string_equal(packet_status_name(PACKET_IPV4_FRAGMENT_OVERFLOW),
                        "ipv4-fragment-overflow");
    assert_string_equal(packet_status_name(PACKET_ICMPV6_SHORT), "icmpv6-short");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_parse_as_expected),
        cmocka_unit_test(transport_is_what_nf_tables_sees),
        cmocka_unit_test(every_cut_of_a_good_packet_is_ok_or_cut),
        cmocka_unit_test(malformed_is_all_from_empty_on),
        cmocka_unit_test(names_are_those_of_the_reports),
    };

    return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
