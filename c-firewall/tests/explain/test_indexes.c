// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/indexes.h"

#include <stdio.h>

#include "test.h"

static void a_name_of_the_policy_has_one_number(void **state) {
    struct indexes indexes = {0};

    (void)state;
    for (int number = 0; number < 100; number++) {
        char name[16];
        uint32_t first;

        snprintf(name, sizeof name, "eth%d", number);
        first = indexes_add(name, &indexes);
        assert_int_equal(indexes_add(name, &indexes), first);
        assert_int_equal(indexes_iif(&indexes, name), first);
        assert_int_equal(indexes_oif(&indexes, name, "x"), first);
        assert_string_equal(indexes_name_of(&indexes, first, "", ""), name);
    }
    assert_int_not_equal(indexes_iif(&indexes, "eth0"), indexes_iif(&indexes, "eth1"));
    assert_false(indexes.failed);
    indexes_free(&indexes);
}

/// Checks that two interfaces that the policy does not name have the same number if and only if
/// they have the same name.
static void other_names_have_theirs_for_a_packet(void **state) {
    struct indexes indexes = {0};
    const uint32_t named = indexes_add("eth0", &indexes);
    const uint32_t a = indexes_iif(&indexes, "a"), b = indexes_oif(&indexes, "b", "a");

    (void)state;
    assert_true(a != 0 && a != named && a != b && b != 0 && b != named);
    assert_int_equal(indexes_oif(&indexes, "a", "a"), a);
    assert_int_equal(indexes_iif(&indexes, ""), 0);
    assert_int_equal(indexes_oif(&indexes, "", ""), 0);
    assert_string_equal(indexes_name_of(&indexes, a, "a", "b"), "a");
    assert_string_equal(indexes_name_of(&indexes, b, "a", "b"), "b");
    assert_string_equal(indexes_name_of(&indexes, 0, "a", "b"), "");
    indexes_free(&indexes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_of_the_policy_has_one_number),
        cmocka_unit_test(other_names_have_theirs_for_a_packet),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
