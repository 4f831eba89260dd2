// SPDX-License-Identifier: GPL-2.0-or-later
// Compares the table with a list that is searched sequentially, and tests the records of forgotten
// connections.
#include "connection/table.h"

#include <string.h>

#include "random.h"
#include "test.h"

enum {
    ROUNDS = 20000,
    ROOM = 40,
    KEYS = 100,
};

#define SECOND_NS 1000000000ULL

/// Expected contents of a list of connections: the numbers of their keys (see key_of), the oldest
/// first.
struct expected {
    uint32_t numbers[ROOM];
    uint32_t count;
};

static const enum connection_list lists[] = {CONNECTION_OPENING, CONNECTION_KNOWN};

/// Returns the key of a number. The table hashes it like an IPv4 key for an even number (words 2 to
/// 4 are 0), otherwise like an IPv6 key.
static struct connection_key key_of(uint32_t number) {
    return (struct connection_key){{1, number, 0, 0, number % 2}};
}

/// Removes a number from a list. Returns true if the list contained it.
static bool take_out(struct expected *expected, uint32_t number) {
    for (uint32_t i = 0; i < expected->count; i++) {
        if (expected->numbers[i] != number)
            continue;
        expected->count--;
        memmove(expected->numbers + i, expected->numbers + i + 1,
                (expected->count - i) * sizeof *expected->numbers);
        return true;
    }
    return false;
}

/// Checks the connections of a list and their order.
static void check_list(struct connection_table *table, enum connection_list list,
                       const struct expected *expected) {
    uint32_t slot = table->lists[list].oldest;

    assert_int_equal(table->lists[list].count, expected->count);
    for (uint32_t i = 0; i < expected->count; i++) {
        const struct connection *connection = connection_table_at(table, slot);

        assert_int_equal(connection->key.words[1], expected->numbers[i]);
        slot = connection->newer;
    }
    assert_int_equal(slot, CONNECTION_SLOT_NONE);
}

static void connections_are_found_and_stand_in_their_order(void **state) {
    struct expected expected[2] = {0};
    struct random random = {3};
    struct connection_table table;

    (void)state;
    assert_int_equal(connection_table_make(&table, ROOM), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t number = random_below(&random, KEYS);
        const struct connection_key key = key_of(number);
        const uint32_t list = random_below(&random, 2);
        const bool is_moved = random_below(&random, 2) == 0;
        const uint64_t hash = connection_table_hash(&table, &key);
        const uint32_t slot = connection_table_find(&table, &key, hash);
        const bool is_there = take_out(&expected[0], number) || take_out(&expected[1], number);
        const bool has_room = expected[0].count + expected[1].count < ROOM;

        assert_int_equal(slot != CONNECTION_SLOT_NONE, is_there);
        if (is_there && !is_moved) {
            connection_table_remove(&table, slot);
        } else if (is_there) {
            connection_table_move_to(&table, slot, lists[list], round);
            expected[list].numbers[expected[list].count++] = number;
        } else {
            assert_int_equal(connection_table_is_full(&table), !has_room);
            assert_int_equal(connection_table_add(&table, &key, hash, lists[list], round) !=
                                 CONNECTION_SLOT_NONE,
                             has_room);
            if (has_room)
                expected[list].numbers[expected[list].count++] = number;
        }
        for (uint32_t i = 0; i < 2; i++)
            check_list(&table, lists[i], &expected[i]);
    }
    connection_table_free(&table);
}

static uint64_t hash_of(const struct connection_table *table, uint32_t number) {
    const struct connection_key key = key_of(number);

    return connection_table_hash(table, &key);
}

/// Returns how many of some keys the table reports as forgotten.
/// - low, high: number of the first key, and the number after that of the last key.
static uint32_t count_buried(const struct connection_table *table, uint32_t low, uint32_t high,
                             uint64_t now_ns) {
    uint32_t count = 0;

    for (uint32_t number = low; number < high; number++) {
        count += connection_table_is_buried(table, hash_of(table, number), now_ns);
    }
    return count;
}

/// The table records a forgotten connection for 120 s. If far more connections are forgotten than
/// it has room to record, it reports every key as forgotten.
static void what_was_forgotten_is_remembered_for_a_while(void **state) {
    const uint64_t now_ns = 5 * SECOND_NS;
    struct connection_table table;
    uint64_t hash;

    (void)state;
    assert_int_equal(connection_table_make(&table, 1), 0);
    hash = hash_of(&table, 1);
    assert_false(connection_table_is_buried(&table, hash, now_ns));
    connection_table_bury(&table, hash, now_ns);
    assert_true(connection_table_is_buried(&table, hash, now_ns + 119 * SECOND_NS));
    assert_false(connection_table_is_buried(&table, hash, now_ns + 120 * SECOND_NS));
    assert_int_equal(count_buried(&table, 1000, 1020, now_ns), 0);
    for (uint32_t number = 0; number < 100; number++)
        connection_table_bury(&table, hash_of(&table, number), now_ns);
    assert_int_equal(count_buried(&table, 0, 200, now_ns), 200);
    connection_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_found_and_stand_in_their_order),
        cmocka_unit_test(what_was_forgotten_is_remembered_for_a_while),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
