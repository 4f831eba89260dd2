// SPDX-License-Identifier: GPL-2.0-or-later
// Compares sets of several fields with a linear search.
#include "engine/set.h"

#include <stdlib.h>

#include "random.h"
#include "test.h"

enum {
    FIELDS = 3,
    ELEMENTS_MAX = 120,
    ROUNDS = 400,
    QUESTIONS = 300,
};

static const struct policy_key key = {
    .count = FIELDS,
    .fields = {POLICY_IP_SADDR, POLICY_IP6_SADDR, POLICY_TCP_DPORT},
};
static const bool wide[] = {false, true, false};
static const enum policy_type types[] = {POLICY_IPV4_ADDR, POLICY_IPV6_ADDR, POLICY_INET_SERVICE};

/// Returns a number as a field's value. A wide field has the number in its low half and in its high
/// half.
static policy_value widen(uint32_t field, uint32_t value) {
    return wide[field] ? (policy_value)value << 100 | value : value;
}

/// Returns a random range of a field: a single value, a short range, or all values.
/// - most: the low end of a single value or short range is less than most.
static struct policy_range make_range(struct random *random, uint32_t field, uint32_t most) {
    const uint32_t low = random_below(random, most);

    switch (random_below(random, 6)) {
    case 0:
        return (struct policy_range){widen(field, low),
                                     widen(field, low + random_below(random, 5))};
    case 1:
        return (struct policy_range){0, widen(field, UINT32_MAX)};
    default:
        return (struct policy_range){widen(field, low), widen(field, low)};
    }
}

static void make_fields(struct random *random, struct fields *fields, uint32_t most) {
    fields->present =
        FIELDS_BIT(POLICY_IP_SADDR) | FIELDS_BIT(POLICY_IP6_SADDR) | FIELDS_BIT(POLICY_TCP_DPORT);
    fields->narrow[POLICY_IP_SADDR] = random_below(random, most);
    fields->wide[fields_wide_slot(POLICY_IP6_SADDR)] = widen(1, random_below(random, most));
    fields->narrow[POLICY_TCP_DPORT] = random_below(random, most);
}

static bool holds(const struct policy_range *element, const struct fields *fields) {
    for (uint32_t i = 0; i < FIELDS; i++) {
        const policy_value value = fields_value(fields, key.fields[i]);

        if (value < element[i].low || value > element[i].high)
            return false;
    }
    return true;
}

/// Checks that a found element contains the fields' values, and that an element is found if any
/// element contains them. Returns true if an element was found.
static bool check(const struct set *set, const struct policy_range *ranges, uint32_t count,
                  const struct fields *fields) {
    uint64_t words[FIELDS_KEY_WORDS_MAX];
    const uint32_t words_count = fields_words(fields, &key, words);
    const uint32_t found = set_find(set, fields, &key, words, words_count);

    assert_int_equal(words_count, 4);
    if (found != LOOKUP_NONE) {
        assert_true(found < count);
        assert_true(holds(&ranges[(size_t)found * FIELDS], fields));
        return true;
    }
    for (uint32_t i = 0; i < count; i++)
        assert_false(holds(&ranges[(size_t)i * FIELDS], fields));
    return false;
}

static void finds_what_a_search_one_by_one_finds(void **state) {
    struct random random = {4};
    int found = 0, left_out = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t count = random_below(&random, ELEMENTS_MAX + 1);
        const uint32_t most = round % 2 ? 12 : 200;
        struct policy_range ranges[ELEMENTS_MAX * FIELDS];
        const struct policy_elements elements = {.fields = FIELDS, .count = count};
        struct fields fields = {0};
        struct set set;

        for (uint32_t i = 0; i < count * FIELDS; i++)
            ranges[i] = make_range(&random, i % FIELDS, most);
        assert_int_equal(set_make(&set, types, &elements, ranges, elements.count, 0), 0);
        for (int i = 0; i < QUESTIONS; i++) {
            make_fields(&random, &fields, most);
            found += check(&set, ranges, count, &fields);
        }
        left_out += set.always_count > 0;
        set_free(&set);
    }
    assert_in_range(found, ROUNDS * QUESTIONS / 10, ROUNDS * QUESTIONS * 9 / 10);
    assert_true(left_out > ROUNDS / 10);
}

static void a_missing_field_has_no_words(void **state) {
    struct random random = {5};
    uint64_t words[FIELDS_KEY_WORDS_MAX];
    struct fields fields = {0};

    (void)state;
    make_fields(&random, &fields, 9);
    fields.present &= ~FIELDS_BIT(POLICY_IP6_SADDR);
    assert_int_equal(fields_words(&fields, &key, words), 0);
}

static void elements_with_an_empty_first_range_are_left_out(void **state) {
    struct policy_range single[] = {{1, 0}, {7, 7}}, pair[] = {{1, 0}, {5, 5}, {7, 7}, {5, 5}};
    const struct policy_elements singles = {.fields = 1, .count = 2};
    const struct policy_elements pairs = {.fields = 2, .count = 2};
    static const enum policy_type narrow[] = {POLICY_IPV4_ADDR, POLICY_IPV4_ADDR};
    struct set set;

    (void)state;
    assert_int_equal(set_make(&set, narrow, &singles, single, singles.count, 0), 0);
    assert_int_equal(lookup_find(&set.single, 7), 1);
    assert_int_equal(lookup_find(&set.single, 0), LOOKUP_NONE);
    assert_int_equal(lookup_find(&set.single, 1), LOOKUP_NONE);
    set_free(&set);
    assert_int_equal(set_make(&set, narrow, &pairs, pair, pairs.count, 0), 0);
    assert_int_equal(lookup_hash_find(&set.exact, (uint64_t[]){7, 5}, 2), 1);
    assert_int_equal(lookup_hash_find(&set.exact, (uint64_t[]){1, 5}, 2), LOOKUP_NONE);
    set_free(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_search_one_by_one_finds),
        cmocka_unit_test(a_missing_field_has_no_words),
        cmocka_unit_test(elements_with_an_empty_first_range_are_left_out),
    };

    return cmocka_run_group_tests_name("set", tests, NULL, NULL);
}
