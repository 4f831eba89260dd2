// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/counts.h"

#include <pthread.h>
#include <string.h>

#include "test.h"

enum {
    THREADS = 4,
    ROUNDS = 10000,
};

static void every_count_has_a_name_of_its_own(void **state) {
    (void)state;
    for (int i = 0; i < COUNT_COUNT; i++) {
        assert_non_null(counts_name((enum count)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(counts_name((enum count)i), counts_name((enum count)j));
    }
    assert_string_equal(counts_name(COUNT_RELOADS), "reloads");
    assert_string_equal(counts_name(COUNT_UPGRADES_FAILED), "upgrades_failed");
}

static void *count_much(void *none) {
    for (int i = 0; i < ROUNDS; i++)
        counts_add(COUNT_RELOADS, 2);
    return none;
}

static void threads_count_together(void **state) {
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counts_get(COUNT_RELOADS), 2 * THREADS * ROUNDS);
    assert_int_equal(counts_get(COUNT_RELOADS_FAILED), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_has_a_name_of_its_own),
        cmocka_unit_test(threads_count_together),
    };

    return cmocka_run_group_tests_name("counts", tests, NULL, NULL);
}
