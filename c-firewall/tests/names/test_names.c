// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "names/client.h"
#include "names/quic.h"
#include "test.h"
#include "vectors.h"

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

/// Whether more bytes may come behind those of a vector.
static bool is_stream(const char *what) {
    return strcmp(what, "hello") == 0 || strcmp(what, "client") == 0 || strcmp(what, "framed") == 0;
}

/// The protocol of a stream's first bytes never changes when more arrive.
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

/// Reads a stream as one byte after the other comes, without reading again what waits. Returns how
/// often that was so.
static int read_slowly(const uint8_t *bytes, uint32_t length) {
    static uint8_t scratch[NAMES_HELLO_BYTES_MAX];
    uint8_t head[NAMES_RECORD_HEAD_BYTES] = {0};
    struct names names = {.state = NAMES_UNDECIDED}, again;
    int waited = 0;

    for (uint32_t end = 1; end <= length && names.state == NAMES_UNDECIDED; end++) {
        memcpy(head, bytes, end < sizeof head ? end : sizeof head);
        if (names_client_waits(&names, head, bytes + end - 1, 1, end)) {
            waited++;
            assert_int_equal(names_client_read(bytes, end, false, scratch, &again),
                             NAMES_UNDECIDED);
            assert_int_equal(again.protocol, names.protocol);
        } else {
            names_client_read(bytes, end, false, scratch, &names);
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

/// Allocations of libcrypto so far.
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

/// Once the opener is made, neither packets that can be opened nor others make libcrypto allocate.
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
        cmocka_unit_test(opening_allocates_nothing),
    };

    if (!CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free))
        return EXIT_FAILURE;
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
