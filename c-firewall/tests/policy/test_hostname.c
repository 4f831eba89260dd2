// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of host names: how they are parsed and stored, and the table of names.
#include "policy/hostname.h"

#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "test.h"
#include "vectors.h"

enum {
    WORDS = 200000, // number of random words that are parsed as host names
    NAMES = 100000, // number of names in a table, which grows often, at last to huge pages
    TEXT_BYTES = 300,
};

/// Parses a name. Returns NULL with its stored form, or the error text.
static const char *read_name(const char *text, size_t length, char kept[static TEXT_BYTES]) {
    struct hostname name;
    const char *cause = hostname_parse(text, length, &name);

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

/// Returns an expected hash from the test vectors in hostnames.txt.
/// - word: start of the line; the hash follows it in hexadecimal.
static uint64_t hash_of(const char *word) {
    FILE *file = vectors_open("hostnames.txt");
    char line[LINE_BYTES];
    uint64_t hash = 0;

    while (hash == 0 && lines_next(file, line))
        if (strncmp(line, word, strlen(word)) == 0)
            hash = strtoull(line + strlen(word), NULL, 16);
    fclose(file);
    assert_true(hash > 0);
    return hash;
}

/// Appends a character to a text, in UTF-8.
static void put_letter(char *text, size_t *length, uint32_t letter) {
    const unsigned more = letter < 0x80 ? 0 : letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    static const uint8_t marks[] = {0, 0xc0, 0xe0, 0xf0};

    text[(*length)++] = (char)(marks[more] | letter >> 6 * more);
    for (unsigned left = more; left-- > 0;)
        text[(*length)++] = (char)(0x80 | (letter >> 6 * left & 0x3f));
}

/// Adds the stored form of a name, or its error, to a hash (FNV-1a).
static void hash_name(uint64_t *hash, const char *text, size_t length) {
    char kept[TEXT_BYTES];
    const char *cause = read_name(text, length, kept);

    for (const char *at = cause ? cause : kept; *at != '\0'; at++)
        *hash = (*hash ^ (uint8_t)*at) * 0x100000001b3;
    *hash = (*hash ^ '\n') * 0x100000001b3;
}

static bool is_surrogate(uint32_t letter) { return letter >= 0xd800 && letter < 0xe000; }

static void each_letter_is_kept_as_by_the_other_twin(void **state) {
    uint64_t hash = 0xcbf29ce484222325;

    (void)state;
    for (uint32_t letter = 0x80; letter < 0x110000; letter++) {
        char text[8];
        size_t length = 0;

        if (is_surrogate(letter))
            continue;
        put_letter(text, &length, 'a');
        put_letter(text, &length, letter);
        put_letter(text, &length, 'b');
        hash_name(&hash, text, length);
    }
    assert_int_equal(hash, hash_of("letters "));
}

static uint32_t next(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void words_are_kept_as_by_the_other_twin(void **unused) {
    uint64_t hash = 0xcbf29ce484222325;
    uint32_t state = 1;

    (void)unused;
    for (uint32_t i = 0; i < WORDS; i++) {
        const uint32_t start = 0x80 + next(&state) % 0x1f000, count = 1 + next(&state) % 8;
        char text[32];
        size_t length = 0;

        for (uint32_t n = 0; n < count; n++) {
            const uint32_t letter = start + next(&state) % 0x60;

            put_letter(text, &length, is_surrogate(letter) ? 'a' : letter);
        }
        hash_name(&hash, text, length);
    }
    assert_int_equal(hash, hash_of("words "));
}

static void bytes_that_are_no_text_are_refused(void **state) {
    static const char *const broken[] = {"\x80",         "\xc3", "\xc1\xa1",
                                         "\xe0\x81\xa1", "\xff", "\xf8"};
    char kept[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_non_null(read_name(broken[i], strlen(broken[i]), kept));
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
        cmocka_unit_test(each_letter_is_kept_as_by_the_other_twin),
        cmocka_unit_test(words_are_kept_as_by_the_other_twin),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(a_name_of_253_bytes_is_the_longest),
        cmocka_unit_test(each_name_is_there_once),
        cmocka_unit_test(of_many_names_each_is_found_and_no_other),
    };

    return cmocka_run_group_tests_name("hostname", tests, NULL, NULL);
}
