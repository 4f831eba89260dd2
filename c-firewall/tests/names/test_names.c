// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "names/client.h"
#include "names/quic.h"
#include "names/record.h"
#include "test.h"
#include "vectors.h"

enum {
    // Maximum size of the segments for vectors that are longer than SHORT, in bytes.
    SEGMENT_MAX = 16,
    SHORT = 600,
};

static const char *const FILES[] = {
    "names-hello.txt", "names-http.txt", "names-dns.txt", "names-quic.txt", "names-answer.txt",
};

static void every_vector_gives_what_it_expects(void **state) {
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        FILE *file = vectors_open(FILES[i]);
        struct vector vector = {0};
        int vectors = 0;

        for (; vectors_next(file, &vector); vectors++) {
            char *got = names_ask(vector.ask, vector.bytes, (uint32_t)vector.length);

            if (strcmp(got, vector.expect) != 0) {
                print_error("%s\n  expected %s\n  got      %s\n", vector.name, vector.expect, got);
                wrong++;
            }
            free(got);
        }
        fclose(file);
        assert_true(vectors > 10);
    }
    assert_int_equal(wrong, 0);
}

/// Returns true if the bytes of a kind of vector are the beginning of a stream.
static bool is_stream(const char *what) {
    static const char *const streams[] = {"hello", "client", "framed", "request", "chunk"};

    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (strcmp(what, streams[i]) == 0)
            return true;
    return false;
}

/// A decided result for the first bytes of a vector's stream equals the result for all its bytes.
static void what_is_decided_stays_decided(void **state) {
    int cuts = 0;

    (void)state;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        FILE *file = vectors_open(FILES[i]);
        struct vector vector = {0};

        while (vectors_next(file, &vector)) {
            for (uint32_t end = 0; is_stream(vector.ask) && end < vector.length; end++, cuts++) {
                uint8_t *bytes = malloc(end ? end : 1);
                char *got;

                memcpy(bytes, vector.bytes, end);
                got = names_ask(vector.ask, bytes, end);
                if (!strstr(got, "\"state\":\"undecided\""))
                    assert_string_equal(got, vector.expect);
                free(got);
                free(bytes);
            }
        }
        fclose(file);
    }
    assert_true(cuts > 1000);
}

/// Parses a stream after each byte, except while names_client_waits is true. Returns the number of
/// times that it was true.
static int read_slowly(const uint8_t *bytes, uint32_t length) {
    static uint8_t scratch[NAMES_HELLO_BYTES_MAX];
    struct names_progress progress = {0};
    struct names names = {.state = NAMES_UNDECIDED}, again;
    int waited = 0;

    for (uint32_t end = 1; end <= length && names.state == NAMES_UNDECIDED; end++) {
        if (names_client_waits(&names, &progress, bytes + end - 1, 1, end)) {
            struct names_progress start = {0};

            waited++;
            assert_int_equal(names_client_parse(bytes, end, false, scratch, &start, &again),
                             NAMES_UNDECIDED);
            assert_int_equal(again.protocol, names.protocol);
        } else {
            names_client_parse(bytes, end, false, scratch, &progress, &names);
        }
    }
    return waited;
}

static void what_waits_is_undecided(void **state) {
    int waited = 0;

    (void)state;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        FILE *file = vectors_open(FILES[i]);
        struct vector vector = {0};

        while (vectors_next(file, &vector))
            if (strcmp(vector.ask, "client") == 0)
                waited += read_slowly(vector.bytes, (uint32_t)vector.length);
        fclose(file);
    }
    assert_true(waited > 1000);
}

/// Parses a vector in segments of every size, or up to SEGMENT_MAX if it is long. Fails if a result
/// differs from that of one segment. Returns the number of sizes.
static uint32_t cut(const struct vector *vector) {
    const uint32_t length = (uint32_t)vector->length;
    const uint32_t sizes = length <= SHORT ? length : SEGMENT_MAX;

    for (uint32_t size = 1; size <= sizes; size++)
        if (!names_is_same_in_segments(vector->ask, vector->bytes, length, size)) {
            print_error("%s %u\n", vector->name, size);
            fail();
        }
    return sizes;
}

/// A stream in segments of every size gives the same names as in one segment.
static void segments_change_no_result(void **state) {
    uint32_t cuts = 0;

    (void)state;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        FILE *file = vectors_open(FILES[i]);
        struct vector vector = {0};

        while (vectors_next(file, &vector))
            if (strcmp(vector.ask, "client") == 0 || strcmp(vector.ask, "request") == 0)
                cuts += cut(&vector);
        fclose(file);
    }
    assert_true(cuts > 1000);
}

/// Appends bytes in TLS records with up to `size` bytes each. Returns the end of the records.
static uint8_t *put_records(uint8_t *end, uint8_t kind, const uint8_t *bytes, uint32_t length,
                            uint32_t size) {
    for (uint32_t at = 0; at < length; at += size) {
        const uint32_t part = length - at < size ? length - at : size;
        const uint8_t header[] = {kind, 3, 3, 0, (uint8_t)part};

        memcpy(end, header, sizeof header);
        memcpy(end + sizeof header, bytes + at, part);
        end += sizeof header + part;
    }
    return end;
}

/// Reads the second ClientHello of a stream in segments. Compares each result with one without
/// progress. Returns the last result.
/// - begin: length of the records with the first ClientHello.
/// - segment: size of the segments in bytes.
static enum names_state read_second(const uint8_t *bytes, uint32_t length, uint32_t begin,
                                    uint32_t segment) {
    static uint8_t scratch[NAMES_HELLO_BYTES_MAX];
    struct names_progress progress = {0};
    enum names_state state = NAMES_UNDECIDED;

    for (uint32_t end = begin; state == NAMES_UNDECIDED; end += segment) {
        struct names_progress start = {0};
        struct names whole, names;
        enum names_state anew;

        end = end < length ? end : length;
        anew = names_record_parse_second(bytes, end, scratch, &start, &whole);
        state = names_record_parse_second(bytes, end, scratch, &progress, &names);
        assert_int_equal(state, anew);
        if (state != NAMES_UNDECIDED)
            assert_memory_equal(names.host, whole.host, sizeof names.host);
        if (end == length)
            break;
    }
    return state;
}

/// Checks that the second ClientHello is read from a stream with the same ClientHello twice, in
/// records of `size` bytes: first with other records between the two, then joined, so that one
/// record may contain the end of the first and the start of the second.
/// - segment: size of the segments in bytes.
static void send_twice(const uint8_t *hello, uint32_t length, uint32_t size, uint32_t segment) {
    static uint8_t bytes[NAMES_HELLO_BYTES_MAX], both[NAMES_HELLO_BYTES_MAX];
    const uint8_t other[20] = {1};
    uint8_t *const first = put_records(bytes, 22, hello, length, size);
    uint8_t *end = put_records(first, 20, other, 1, 1);

    end = put_records(put_records(end, 23, other, sizeof other, 6), 22, hello, length, size);
    assert_int_equal(
        read_second(bytes, (uint32_t)(end - bytes), (uint32_t)(first - bytes), segment),
        NAMES_KNOWN);
    memcpy(both, hello, length);
    memcpy(both + length, hello, length);
    end = put_records(bytes, 22, both, 2 * length, size);
    assert_int_equal(
        read_second(bytes, (uint32_t)(end - bytes), (uint32_t)(end - bytes) / 2, segment),
        NAMES_KNOWN);
}

/// A second ClientHello is read in records and segments of every size, after other records, and
/// also if its first record contains the end of the first ClientHello.
static void segments_change_no_second_hello(void **state) {
    static const uint32_t sizes[] = {1, 3, 7, 200}, segments[] = {1, 2, 5, 6, 64, 1 << 14};
    FILE *file = vectors_open("names-hello.txt");
    struct vector vector = {0};
    int seen = 0;

    (void)state;
    while (vectors_next(file, &vector)) {
        struct names names;
        uint32_t length;

        if (strcmp(vector.ask, "hello") != 0 ||
            names_hello_parse(vector.bytes, (uint32_t)vector.length, NAMES_TLS, &names) !=
                NAMES_KNOWN)
            continue;
        length = names_hello_length(vector.bytes, (uint32_t)vector.length);
        for (size_t i = 0; i < 24 && length < NAMES_HELLO_BYTES_MAX / 16; i++, seen++)
            send_twice(vector.bytes, length, sizes[i / 6], segments[i % 6]);
    }
    fclose(file);
    assert_true(seen > 24);
}

/// Number of libcrypto's allocations so far.
static int allocations;

static void *count_malloc(size_t bytes, const char *file, int line) {
    (void)file;
    (void)line;
    allocations++;
    return malloc(bytes);
}

static void *count_realloc(void *block, size_t bytes, const char *file, int line) {
    (void)file;
    (void)line;
    allocations++;
    return realloc(block, bytes);
}

static void count_free(void *block, const char *file, int line) {
    (void)file;
    (void)line;
    free(block);
}

/// After the opener is created, libcrypto allocates nothing, neither for packets that can be
/// decrypted nor for other packets.
static void opening_allocates_nothing(void **state) {
    static uint8_t plain[NAMES_HELLO_BYTES_MAX];
    FILE *file = vectors_open("names-quic.txt");
    struct names_quic_opener opener;
    struct vector vector = {0};
    int opened = 0, before;

    (void)state;
    assert_int_equal(names_quic_make(&opener), 0);
    before = allocations;
    assert_true(before > 0);
    while (vectors_next(file, &vector)) {
        const struct names_quic_header header =
            names_quic_header(vector.bytes, (uint32_t)vector.length, 0);
        struct names_quic_keys keys;

        if (header.kind != NAMES_QUIC_INITIAL)
            continue;
        keys = names_quic_derive(&opener, vector.bytes, &header);
        opened += names_quic_open(&opener, &keys, vector.bytes, &header, plain) > 0;
        keys.key[0] ^= 1;
        assert_int_equal(names_quic_open(&opener, &keys, vector.bytes, &header, plain), 0);
    }
    names_quic_free(&opener);
    fclose(file);
    assert_int_equal(allocations, before);
    assert_true(opened > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_gives_what_it_expects),
        cmocka_unit_test(what_is_decided_stays_decided),
        cmocka_unit_test(what_waits_is_undecided),
        cmocka_unit_test(segments_change_no_result),
        cmocka_unit_test(segments_change_no_second_hello),
        cmocka_unit_test(opening_allocates_nothing),
    };

    if (!CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free))
        return EXIT_FAILURE;
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
