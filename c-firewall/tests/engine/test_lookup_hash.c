// SPDX-License-Identifier: GPL-2.0-or-later
// Tests hash tables: the results, and the maximum number of slots that a search examines, also for
// values that an attacker chose.
#include "engine/lookup_hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum {
    CHOSEN = 50000,
    // Number of slots for CHOSEN values: a power of 2 that is at least twice as large.
    SLOTS = 1 << 17,
};

/// Numbers near 2^32 and 2^64 divided by the golden ratio: multipliers of a usual hash without a
/// key.
#define MULTIPLIER_32 0x9e3779b1U
#define MULTIPLIER_64 0x9e3779b97f4a7c15ULL

/// Checks that no search examines more than PROBES_MAX used slots, and that the table has SLOTS
/// slots.
static void assert_bounded(const struct lookup_table *table) {
    uint32_t used = 0, most = 0;

    assert_int_equal(table->mask, SLOTS - 1);
    for (uint32_t i = 0; i < 2 * SLOTS; i++) {
        used = table->slots[i & table->mask].value == LOOKUP_NONE ? 0 : used + 1;
        if (used > most)
            most = used;
    }
    assert_in_range(most, 1, LOOKUP_PROBES_MAX);
}

/// Returns true if a hash without a key would place the words in the first 64th of the slots.
static bool meets(const uint64_t words[static 2]) {
    uint64_t hash = MULTIPLIER_64;

    for (int i = 0; i < 2; i++) {
        const unsigned __int128 product = (unsigned __int128)(hash ^ words[i]) * MULTIPLIER_64;

        hash = ((uint64_t)product ^ (uint64_t)(product >> 64)) + MULTIPLIER_64;
    }
    return (hash & (SLOTS - 1)) < SLOTS / 64;
}

static void chosen_words_do_not_meet(void **state) {
    uint64_t *rows = malloc(CHOSEN * 3 * sizeof *rows);
    struct lookup_hash hash;
    uint32_t chosen = 0;

    (void)state;
    for (uint64_t i = 1; chosen < CHOSEN; i++) {
        uint64_t *row = &rows[3ULL * chosen];

        row[0] = 0x20010db800000001ULL;
        row[1] = i * MULTIPLIER_64;
        row[2] = chosen;
        chosen += meets(row);
    }
    assert_int_equal(lookup_hash_make(&hash, 2, rows, CHOSEN), 0);
    assert_bounded(&hash.table);
    for (uint32_t i = 0; i < CHOSEN; i++)
        assert_int_equal(lookup_hash_find(&hash, &rows[3ULL * i], 2), i);
    lookup_hash_free(&hash);
}

static void chosen_values_do_not_meet(void **state) {
    struct lookup_slot *entries = malloc(CHOSEN * sizeof *entries);
    struct lookup_table table;
    uint32_t inverse = 1; // inverse * MULTIPLIER_32 becomes 1 modulo 2^32

    (void)state;
    for (int i = 0; i < 5; i++) // Newton's method: each step doubles the number of correct bits
        inverse *= 2 - MULTIPLIER_32 * inverse;
    for (uint32_t i = 0; i < CHOSEN; i++)
        entries[i] = (struct lookup_slot){.tag = i * inverse, .value = i};
    assert_int_equal(lookup_table_make(&table, entries, CHOSEN), 0);
    assert_bounded(&table);
    for (uint32_t i = 0; i < CHOSEN; i++)
        assert_int_equal(lookup_table_find(&table, entries[i].tag), i);
    assert_int_equal(lookup_table_find(&table, -inverse), LOOKUP_NONE);
    lookup_table_free(&table);
    free(entries);
}

static void each_table_has_a_key_of_its_own(void **state) {
    struct lookup_table tables[2];
    struct lookup_slot entries[100];

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        entries[i] = (struct lookup_slot){.tag = i, .value = i};
    for (int i = 0; i < 2; i++)
        assert_int_equal(lookup_table_make(&tables[i], entries, 100), 0);
    assert_int_equal(tables[0].mask, tables[1].mask);
    assert_memory_not_equal(tables[0].slots, tables[1].slots,
                            (tables[0].mask + 1) * sizeof *tables[0].slots);
    for (int i = 0; i < 2; i++)
        lookup_table_free(&tables[i]);
}

static void nothing_is_found_in_nothing(void **state) {
    struct lookup_table table;
    struct lookup_hash hash;

    (void)state;
    assert_int_equal(lookup_hash_make(&hash, 2, NULL, 0), 0);
    assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){0, 0}, 2), LOOKUP_NONE);
    lookup_hash_free(&hash);
    assert_int_equal(lookup_table_make(&table, NULL, 0), 0);
    assert_int_equal(lookup_table_find(&table, 0), LOOKUP_NONE);
    lookup_table_free(&table);
}

static void many_words_are_found_by_all_of_them(void **state) {
    enum { COUNT = 5000, WORDS = 3 };
    uint64_t *rows = malloc(COUNT * (WORDS + 1) * sizeof *rows);
    struct lookup_hash hash;

    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        rows[i * 4] = i % 10;
        rows[i * 4 + 1] = i / 10 % 10;
        rows[i * 4 + 2] = i / 100;
        rows[i * 4 + 3] = COUNT - i;
    }
    assert_int_equal(lookup_hash_make(&hash, WORDS, rows, COUNT), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){i % 10, i / 10 % 10, i / 100}, WORDS),
                         COUNT - i);
    assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){10, 0, 0}, WORDS), LOOKUP_NONE);
    assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){0, 10, 0}, WORDS), LOOKUP_NONE);
    assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){0, 0, 50}, WORDS), LOOKUP_NONE);
    lookup_hash_free(&hash);
}

static void of_equal_keys_the_first_counts(void **state) {
    uint64_t *rows = malloc(4 * sizeof *rows);
    struct lookup_hash hash;

    (void)state;
    rows[0] = rows[2] = 9;
    rows[1] = 1;
    rows[3] = 2;
    assert_int_equal(lookup_hash_make(&hash, 1, rows, 2), 0);
    assert_int_equal(lookup_hash_find(&hash, (uint64_t[]){9}, 1), 1);
    lookup_hash_free(&hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_words_do_not_meet),
        cmocka_unit_test(chosen_values_do_not_meet),
        cmocka_unit_test(each_table_has_a_key_of_its_own),
        cmocka_unit_test(nothing_is_found_in_nothing),
        cmocka_unit_test(many_words_are_found_by_all_of_them),
        cmocka_unit_test(of_equal_keys_the_first_counts),
    };

    return cmocka_run_group_tests_name("lookup_hash", tests, NULL, NULL);
}
