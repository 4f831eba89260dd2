// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/candidates.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "test.h"

enum {
    IDS_MAX = 60,
    ROUNDS = 2000,
};

/// Checks the list of candidates for a value: it has the IDs of all ranges that contain the value,
/// in order, but not the IDs in left_out.
static void check(const struct candidates *candidates, const struct lookup_range *ranges,
                  uint32_t count, const bool *left_out, uint32_t value, uint32_t bits) {
    const uint32_t list = bits == 32 ? lookup_find(&candidates->lookup, value)
                                     : lookup_find_wide(&candidates->lookup, value);
    uint32_t at = 0, end = 0;

    if (list != LOOKUP_NONE) {
        at = candidates->starts[list];
        end = candidates->starts[list + 1];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (left_out[ranges[i].value] || value < ranges[i].low || value > ranges[i].high)
            continue;
        assert_true(at < end);
        assert_int_equal(candidates->ids[at++], ranges[i].value);
    }
    assert_int_equal(at, end);
}

static void lists_hold_all_that_concern_a_value(void **state) {
    struct random random = {2};
    int left_outs = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t count = random_below(&random, IDS_MAX + 1), bits = round % 2 ? 32 : 128;
        struct lookup_range ranges[IDS_MAX];
        bool left_out[IDS_MAX] = {0};
        struct candidates candidates;

        for (uint32_t i = 0; i < count; i++) {
            const uint32_t low = random_below(&random, 200);
            const uint32_t wide = random_below(&random, 8) == 0 ? 100 : 4;

            ranges[i] = (struct lookup_range){low, low + random_below(&random, wide), i};
        }
        assert_int_equal(candidates_make(&candidates, bits, ranges, count, count, left_out), 0);
        for (uint32_t value = 0; value < 310; value++)
            check(&candidates, ranges, count, left_out, value, bits);
        for (uint32_t i = 0; i < count; i++)
            left_outs += left_out[i];
        candidates_free(&candidates);
    }
    assert_true(left_outs > 100);
}

static void what_concerns_too_much_is_left_out(void **state) {
    struct lookup_range ranges[40];
    bool left_out[40] = {0};
    struct candidates candidates;

    (void)state;
    // The 39 single values 0, 2, 4 … 76 make 77 intervals.
    for (uint32_t i = 0; i < 39; i++)
        ranges[i] = (struct lookup_range){2 * i, 2 * i, i};
    ranges[39] = (struct lookup_range){0, 31, 39};
    assert_int_equal(candidates_make(&candidates, 32, ranges, 40, 40, left_out), 0);
    assert_false(left_out[39]);
    assert_int_equal(candidates_cost(&candidates), 2);
    candidates_free(&candidates);
    ranges[39].high = 32;
    assert_int_equal(candidates_make(&candidates, 32, ranges, 40, 40, left_out), 0);
    assert_true(left_out[39]);
    assert_int_equal(candidates_cost(&candidates), 1);
    candidates_free(&candidates);
}

static void the_highest_value_has_nothing_behind_it(void **state) {
    const policy_value highest = ~(policy_value)0;
    const struct lookup_range ranges[] = {{highest - 1, highest, 0}, {highest, highest, 1}};
    bool left_out[2] = {0};
    struct candidates candidates;
    uint32_t list;

    (void)state;
    assert_int_equal(candidates_make(&candidates, 128, ranges, 2, 2, left_out), 0);
    list = lookup_find_wide(&candidates.lookup, highest);
    assert_int_not_equal(list, LOOKUP_NONE);
    assert_int_equal(candidates.starts[list + 1] - candidates.starts[list], 2);
    list = lookup_find_wide(&candidates.lookup, highest - 1);
    assert_int_equal(candidates.starts[list + 1] - candidates.starts[list], 1);
    assert_int_equal(lookup_find_wide(&candidates.lookup, highest - 2), LOOKUP_NONE);
    candidates_free(&candidates);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_hold_all_that_concern_a_value),
        cmocka_unit_test(what_concerns_too_much_is_left_out),
        cmocka_unit_test(the_highest_value_has_nothing_behind_it),
    };

    return cmocka_run_group_tests_name("candidates", tests, NULL, NULL);
}
