// SPDX-License-Identifier: GPL-2.0-or-later
// Tests learned addresses: their expiry, their separation by set, eviction from a full table, and
// reads during writes.
#include "engine/learned.h"

#include <pthread.h>

#include "test.h"

enum {
    ROOM = 64,
    MORE = 1000,
    ROUNDS = 200000,
};

static policy_value of(uint64_t high, uint64_t low) { return (policy_value)high << 64 | low; }

static void an_address_is_known_until_its_end(void **state) {
    struct learned *learned = learned_make(ROOM);

    (void)state;
    assert_false(learned_find(learned, 1, 7, 0));
    learned_add(learned, 1, 7, 100, 0);
    assert_true(learned_find(learned, 1, 7, 99));
    assert_false(learned_find(learned, 1, 7, 100));
    assert_false(learned_find(learned, 2, 7, 99));        // another set
    assert_false(learned_find(learned, 1, of(1, 7), 99)); // another address
    learned_add(learned, 1, 7, 50, 0);
    assert_true(learned_find(learned, 1, 7, 99)); // no answer shortens the time
    assert_int_equal(learned_end(learned, 1, 7), 100);
    assert_int_equal(learned_end(learned, 2, 7), 0);
    learned_add(learned, 1, 7, 200, 0);
    assert_true(learned_find(learned, 1, 7, 199));
    learned_add(learned, 2, of(1, 7), 150, 0);
    assert_int_equal(learned_count(learned, 149), 2);
    assert_int_equal(learned_count(learned, 150), 1);
    assert_int_equal(learned_count(learned, 200), 0);
    learned_add(learned, 1, 7, 300, 250);
    assert_true(learned_find(learned, 1, 7, 299)); // learned again
    learned_free(learned);
}

static void who_ends_first_makes_room(void **state) {
    struct learned *learned = learned_make(8);

    (void)state;
    for (uint32_t address = 0; address < 8; address++)
        assert_false(learned_add(learned, 1, address, 100 + address, 0));
    assert_int_equal(learned_count(learned, 0), 8);
    assert_true(learned_add(learned, 1, 8, 500, 0));
    assert_false(learned_find(learned, 1, 0, 0));
    for (uint32_t address = 1; address < 9; address++)
        assert_true(learned_find(learned, 1, address, 0));
    // An expired entry is replaced without an eviction.
    assert_false(learned_add(learned, 1, 9, 500, 101));
    assert_false(learned_find(learned, 1, 1, 0));
    for (uint32_t address = 0; address < MORE; address++) {
        learned_add(learned, 1, address, 1000, 0);
        assert_true(learned_find(learned, 1, address, 0));
    }
    assert_int_equal(learned_count(learned, 0), 8);
    learned_free(learned);
}

static void what_is_known_is_told_by_places(void **state) {
    struct learned *learned = learned_make(ROOM);
    struct learned_address found;
    uint32_t count = 0;

    (void)state;
    learned_add(learned, 3, of(5, 7), 100, 0);
    learned_add(learned, 4, 7, 50, 0);
    assert_true(learned_places(learned) >= ROOM);
    for (uint32_t place = 0; place < learned_places(learned); place++) {
        if (!learned_at(learned, place, 50, &found))
            continue;
        count++;
        assert_true(found.set == 3 && found.address == of(5, 7) && found.end_ns == 100);
    }
    assert_int_equal(count, 1);
    learned_forget_all(learned);
    assert_int_equal(learned_count(learned, 0), 0);
    assert_false(learned_find(learned, 3, of(5, 7), 0));
    learned_add(learned, 3, of(5, 7), 100, 0);
    assert_true(learned_find(learned, 3, of(5, 7), 99));
    learned_free(learned);
}

static void *write_all(void *context) {
    struct learned *learned = context;

    // Each half of an address is the number of its set, so that the reader detects a mixed address.
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t set = round % 7 + 2;

        learned_add(learned, set, of(set, set), 10 + round, 0);
    }
    learned_add(learned, 9, 9, UINT64_MAX, 0);
    return NULL;
}

/// Checks that an address is found while other addresses of its bucket are replaced, and that no
/// address is found that was never added.
static void who_looks_sees_what_is_there(void **state) {
    struct learned *learned = learned_make(8);
    pthread_t writer;

    (void)state;
    learned_add(learned, 1, of(UINT64_MAX, UINT64_MAX), UINT64_MAX, 0);
    assert_int_equal(pthread_create(&writer, NULL, write_all, learned), 0);
    while (!learned_find(learned, 9, 9, 0)) {
        assert_true(learned_find(learned, 1, of(UINT64_MAX, UINT64_MAX), 0));
        assert_false(learned_find(learned, 2, of(2, 3), 0));
        assert_false(learned_find(learned, 3, of(2, 2), 0));
    }
    pthread_join(writer, NULL);
    learned_free(learned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_known_until_its_end),
        cmocka_unit_test(who_ends_first_makes_room),
        cmocka_unit_test(what_is_known_is_told_by_places),
        cmocka_unit_test(who_looks_sees_what_is_there),
    };

    return cmocka_run_group_tests_name("learned", tests, NULL, NULL);
}
