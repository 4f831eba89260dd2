// SPDX-License-Identifier: GPL-2.0-or-later
// Names of hosts as they are read and kept.
#include "policy/hostname.h"

#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "test.h"
#include "vectors.h"

enum {
    NAMES = 100000, // of a table that grows often, at last to huge pages
    TEXT_BYTES = 300,
};

/// Reads a name. Returns NULL with what it is kept as, or why it is none.
static const char *read_name(const char *text, size_t length, char kept[static TEXT_BYTES]) {
    struct hostname name;
    const char *cause = hostname_read(text, length, &name);

    if (!cause)
        snprintf(kept, TEXT_BYTES, "%s%.*s", name.wildcard ? "*." : "", (int)name.length,
                 (const char *)name.bytes);
    return cause;
}

static void names_are_those_of_the_vectors(void **state) {
    FILE *file = vectors_open("hostnames.txt");
    char line[LINE_BYTES], kept[TEXT_BYTES];
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        char *text = line + strlen("read "), *equals, *refused, *end;
        const char *cause;

        if (strncmp(line, "read ", strlen("read ")) != 0)
            continue;
        equals = strstr(text, " = ");
        refused = strstr(text, " ! ");
        end = equals ? equals : refused;
        assert_non_null(end);
        *end = '\0';
        cause = read_name(text, lines_unescape(text), kept);
        if (equals) {
            assert_null(cause);
            assert_string_equal(kept, end + 3);
        } else {
            assert_non_null(cause);
            assert_string_equal(cause, end + 3);
        }
        count++;
    }
    fclose(file);
    assert_true(count >= 30);
}

static void a_name_of_253_bytes_is_the_longest(void **state) {
    char longest[TEXT_BYTES], kept[TEXT_BYTES];

    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[63] = longest[127] = longest[191] = '.';
    assert_null(read_name(longest, 253, kept));
    assert_int_equal(strlen(kept), 253);
    assert_string_equal(read_name(longest, 254, kept),
                        "longer than the 253 bytes of a host's name");
    longest[253] = '.';
    assert_null(read_name(longest, 254, kept));
}

static uint32_t add(struct hostnames *all, uint32_t n, bool wildcard) {
    char text[32];
    const int length = snprintf(text, sizeof text, "n%u.example", n);
    uint32_t id;

    assert_int_equal(hostname_add(all, (uint8_t *)text, (size_t)length, wildcard, &id), 0);
    return id;
}

static void each_name_is_there_once(void **state) {
    struct hostnames *all = hostname_make();
    const uint8_t *name = (const uint8_t *)"n7.example";
    size_t length;
    bool wildcard;

    (void)state;
    assert_int_equal(hostname_find(NULL, name, 10, false), HOSTNAME_NONE);
    assert_int_equal(hostname_find(all, name, 10, false), HOSTNAME_NONE);
    for (int round = 0; round < 2; round++) {
        for (uint32_t n = 0; n < NAMES; n++) {
            assert_int_equal(add(all, n, false), 2 * n);
            assert_int_equal(add(all, n, true), 2 * n + 1);
            if (round == 0)
                assert_int_equal(hostname_count(all), 2 * n + 2);
        }
    }
    assert_int_equal(hostname_count(all), 2 * NAMES);
    assert_int_equal(hostname_find(all, name, 10, true), 15);
    assert_int_equal(hostname_find(all, name, 9, true), HOSTNAME_NONE);
    assert_memory_equal(hostname_get(all, 15, &length, &wildcard), name, 10);
    assert_int_equal(length, 10);
    assert_true(wildcard);
    hostname_free(hostname_share(all));
    assert_int_equal(hostname_count(all), 2 * NAMES);
    hostname_free(all);
}

static uint32_t find(const struct hostnames *all, char first, uint32_t n, bool wildcard) {
    char text[32];
    const int length = snprintf(text, sizeof text, "%c%u.example", first, n);

    return hostname_find(all, (uint8_t *)text, (size_t)length, wildcard);
}

static void of_many_names_each_is_found_and_no_other(void **state) {
    struct hostnames *all = hostname_make();

    (void)state;
    for (uint32_t n = 0; n < NAMES; n++)
        assert_int_equal(add(all, n, n % 2), n);
    for (uint32_t n = 0; n < NAMES; n++) {
        assert_int_equal(find(all, 'n', n, n % 2), n);
        assert_int_equal(find(all, 'n', n, !(n % 2)), HOSTNAME_NONE);
        assert_int_equal(find(all, 'm', n, n % 2), HOSTNAME_NONE);
    }
    hostname_free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_vectors),
        cmocka_unit_test(a_name_of_253_bytes_is_the_longest),
        cmocka_unit_test(each_name_is_there_once),
        cmocka_unit_test(of_many_names_each_is_found_and_no_other),
    };

    return cmocka_run_group_tests_name("hostname", tests, NULL, NULL);
}
