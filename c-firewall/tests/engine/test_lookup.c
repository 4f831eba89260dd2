// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/lookup.h"

#include "random.h"
#include "test.h"

enum {
    RANGES_MAX = 40,
    ROUNDS = 2000,
};

/// Returns the result for a value by a linear search of ranges without overlaps.
static uint32_t expected(const struct lookup_range *ranges, uint32_t count, policy_value value) {
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].low <= value && value <= ranges[i].high)
            return ranges[i].value;
    return LOOKUP_NONE;
}

/// Creates random ranges of few values, so that ranges touch and overlap. The values are multiplied
/// by 2^shift. Returns the number of ranges.
/// - exact: true for ranges that contain a single value.
static uint32_t make_ranges(struct random *random, struct lookup_range *ranges, uint32_t shift,
                            bool exact) {
    const uint32_t count = random_below(random, RANGES_MAX + 1);

    for (uint32_t i = 0; i < count; i++) {
        const policy_value low = random_below(random, 250);
        const policy_value high = exact ? low : low + random_below(random, 6);

        ranges[i] = (struct lookup_range){low << shift, high << shift, i};
        if (!exact)
            ranges[i].high |= ((policy_value)1 << shift) - 1;
    }
    return count;
}

static void check(struct random *random, uint32_t bits, uint32_t shift, bool exact) {
    struct lookup_range ranges[RANGES_MAX];
    uint32_t count = make_ranges(random, ranges, shift, exact);
    struct lookup lookup;

    count = lookup_part(ranges, count);
    assert_int_equal(lookup_make(&lookup, bits, ranges, count), 0);
    for (uint32_t at = 0; at < 256; at++)
        for (int offset = -1; offset <= 1; offset++) {
            const policy_value value = ((policy_value)at << shift) + (policy_value)(int64_t)offset;
            const policy_value masked = bits == 32 ? (uint32_t)value : value;

            assert_int_equal(bits == 32 ? lookup_find(&lookup, (uint32_t)masked)
                                        : lookup_find_wide(&lookup, masked),
                             expected(ranges, count, masked));
        }
    lookup_free(&lookup);
}

static void finds_what_a_search_one_by_one_finds(void **state) {
    struct random random = {1};

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        check(&random, 32, 0, false);
        check(&random, 32, 24, false);
        check(&random, 32, 13, true);
        check(&random, 128, 0, false);
        check(&random, 128, 120, false);
        check(&random, 128, 60, true);
    }
}

static void parting_leaves_what_begins_first(void **state) {
    struct lookup_range ranges[] = {{5, 9, 2},  {0, 6, 1},   {7, 8, 3},
                                    {9, 12, 4}, {20, 20, 6}, {20, 20, 5}};

    (void)state;
    assert_int_equal(lookup_part(ranges, 6), 4);
    assert_true(ranges[0].low == 0 && ranges[0].high == 6 && ranges[0].value == 1);
    assert_true(ranges[1].low == 7 && ranges[1].high == 9 && ranges[1].value == 2);
    assert_true(ranges[2].low == 10 && ranges[2].high == 12 && ranges[2].value == 4);
    assert_true(ranges[3].low == 20 && ranges[3].high == 20 && ranges[3].value == 5);
}

static void all_values_of_a_type_can_be_one_range(void **state) {
    struct lookup_range all[] = {{0, UINT32_MAX, 7}}, wide[] = {{0, ~(policy_value)0, 8}};
    struct lookup lookup;

    (void)state;
    assert_int_equal(lookup_make(&lookup, 32, all, 1), 0);
    assert_int_equal(lookup_find(&lookup, 0), 7);
    assert_int_equal(lookup_find(&lookup, UINT32_MAX), 7);
    lookup_free(&lookup);
    assert_int_equal(lookup_make(&lookup, 128, wide, 1), 0);
    assert_int_equal(lookup_find_wide(&lookup, 0), 8);
    assert_int_equal(lookup_find_wide(&lookup, ~(policy_value)0), 8);
    lookup_free(&lookup);
}

static void nothing_is_found_in_nothing(void **state) {
    struct lookup lookup;

    (void)state;
    assert_int_equal(lookup_make(&lookup, 32, NULL, 0), 0);
    assert_int_equal(lookup_find(&lookup, 0), LOOKUP_NONE);
    lookup_free(&lookup);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_search_one_by_one_finds),
        cmocka_unit_test(parting_leaves_what_begins_first),
        cmocka_unit_test(all_values_of_a_type_can_be_one_range),
        cmocka_unit_test(nothing_is_found_in_nothing),
    };

    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
