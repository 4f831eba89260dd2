// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/interface.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

#define SECOND UINT64_C(1000000000)

static int reads;
static const char *present_name;

static bool read_present(uint32_t index, char name[static IF_NAMESIZE]) {
    (void)index;
    reads++;
    if (!present_name)
        return false;
    snprintf(name, IF_NAMESIZE, "%s", present_name);
    return true;
}

static void a_name_is_its_bytes_as_a_number(void **state) {
    (void)state;
    assert_true(interface_value("") == 0);
    assert_true(interface_value("lo") == (policy_value)0x6c6f << 112);
    assert_true(interface_value("abcdefghijklmno") ==
                ((policy_value)0x6162636465666768 << 64 | 0x696a6b6c6d6e6f00));
}

static void a_name_is_read_once_a_second(void **state) {
    struct interfaces interfaces = {.read = read_present};

    (void)state;
    reads = 0;
    present_name = "eth0";
    assert_true(interface_name(&interfaces, 0, 5) == 0);
    assert_int_equal(reads, 0);
    assert_true(interface_name(&interfaces, 7, 5) == interface_value("eth0"));
    present_name = "wan0";
    assert_true(interface_name(&interfaces, 7, SECOND + 4) == interface_value("eth0"));
    assert_int_equal(reads, 1);
    assert_true(interface_name(&interfaces, 7, SECOND + 5) == interface_value("wan0"));
    present_name = NULL;
    assert_true(interface_name(&interfaces, 7, 3 * SECOND) == 0);
    assert_true(interface_name(&interfaces, 7, 3 * SECOND) == 0);
    assert_int_equal(reads, 3);
}

/// Checks that two interface indexes with the same slot of the cache replace each other, and that
/// neither gets the name of the other index.
static void indexes_of_one_slot_are_told_apart(void **state) {
    struct interfaces interfaces = {.read = read_present};

    (void)state;
    present_name = "a";
    assert_true(interface_name(&interfaces, 1, 0) == interface_value("a"));
    present_name = "b";
    assert_true(interface_name(&interfaces, 1 + INTERFACE_SLOTS, 0) == interface_value("b"));
    present_name = "c";
    assert_true(interface_name(&interfaces, 1, 0) == interface_value("c"));
}

static void the_system_knows_loopback(void **state) {
    char name[IF_NAMESIZE];

    (void)state;
    assert_int_equal(interface_index("lo", NULL), 1);
    assert_int_equal(interface_index("none-of-these", NULL), 0);
    assert_true(interface_system(1, name));
    assert_string_equal(name, "lo");
    assert_false(interface_system(UINT32_MAX / 2, name));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_its_bytes_as_a_number),
        cmocka_unit_test(a_name_is_read_once_a_second),
        cmocka_unit_test(indexes_of_one_slot_are_told_apart),
        cmocka_unit_test(the_system_knows_loopback),
    };

    return cmocka_run_group_tests_name("interface", tests, NULL, NULL);
}
