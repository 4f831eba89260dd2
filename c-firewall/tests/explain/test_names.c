// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/names.h"

#include <stdio.h>

#include "test.h"

static void a_name_of_the_policy_has_one_number(void **state) {
    struct names names = {0};

    (void)state;
    for (int number = 0; number < 100; number++) {
        char name[16];
        uint32_t first;

        snprintf(name, sizeof name, "eth%d", number);
        first = names_add(name, &names);
        assert_int_equal(names_add(name, &names), first);
        assert_int_equal(names_iif(&names, name), first);
        assert_int_equal(names_oif(&names, name, "x"), first);
        assert_string_equal(names_name_of(&names, first, "", ""), name);
    }
    assert_int_not_equal(names_iif(&names, "eth0"), names_iif(&names, "eth1"));
    assert_false(names.failed);
    names_free(&names);
}

/// Two that the policy does not name are equal if their names are.
static void other_names_have_theirs_for_a_packet(void **state) {
    struct names names = {0};
    const uint32_t named = names_add("eth0", &names);
    const uint32_t a = names_iif(&names, "a"), b = names_oif(&names, "b", "a");

    (void)state;
    assert_true(a != 0 && a != named && a != b && b != 0 && b != named);
    assert_int_equal(names_oif(&names, "a", "a"), a);
    assert_int_equal(names_iif(&names, ""), 0);
    assert_int_equal(names_oif(&names, "", ""), 0);
    assert_string_equal(names_name_of(&names, a, "a", "b"), "a");
    assert_string_equal(names_name_of(&names, b, "a", "b"), "b");
    assert_string_equal(names_name_of(&names, 0, "a", "b"), "");
    names_free(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_of_the_policy_has_one_number),
        cmocka_unit_test(other_names_have_theirs_for_a_packet),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
