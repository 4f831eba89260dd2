// SPDX-License-Identifier: GPL-2.0-or-later
// Interfaces at which IPv4 packets with false source addresses arrive.
#include "state/reverse_path.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

#define HEAD "Iface\tDestination\tGateway\n"
#define ROUTE(name) name "\t0002000A\t00000000\n"

/// Value of rp_filter for `all`.
static int of_all;

/// Returns the value of rp_filter of an interface; -1 if it can't be read. An interface whose name
/// is not compared here has a strict filter (1).
static int filter(const char *name) {
    if (strcmp(name, "all") == 0)
        return of_all;
    if (strcmp(name, "off") == 0)
        return 0;
    if (strcmp(name, "loose") == 0)
        return 2;
    return strcmp(name, "unknown") == 0 ? -1 : 1;
}

/// Checks the interfaces that are found.
/// - expected: their names, each followed by a space.
static void assert_found(int all, const char *routes, const char *expected) {
    char told[REVERSE_PATH_NAMES_MAX * (IF_NAMESIZE + 1) + 1] = "";
    struct reverse_path found;

    of_all = all;
    reverse_path_find(&found, routes, filter);
    for (uint32_t i = 0; i < found.count; i++) {
        strcat(told, found.names[i]);
        strcat(told, " ");
    }
    assert_string_equal(told, expected);
}

static void filters_that_are_off_or_loose_are_found(void **state) {
    (void)state;
    assert_found(0, HEAD ROUTE("off") ROUTE("strict") ROUTE("loose") ROUTE("unknown") ROUTE("off"),
                 "off loose ");
}

static void the_higher_value_is_in_effect(void **state) {
    (void)state;
    assert_found(1, HEAD ROUTE("off") ROUTE("strict") ROUTE("loose"), "loose ");
    assert_found(2, HEAD ROUTE("off") ROUTE("strict"), "off strict ");
}

static void a_single_interface_needs_no_filter(void **state) {
    (void)state;
    assert_found(0, HEAD ROUTE("off"), "");
    assert_found(0, HEAD ROUTE("off") ROUTE("off") ROUTE("lo"), "");
    assert_found(0, HEAD, "");
}

static void the_number_of_names_is_limited(void **state) {
    char routes[1024] = HEAD;
    struct reverse_path found;

    (void)state;
    for (int number = 0; number <= REVERSE_PATH_NAMES_MAX; number++)
        sprintf(routes + strlen(routes), "e%d\t0002000A\t00000000\n", number);
    of_all = 2;
    reverse_path_find(&found, routes, filter);
    assert_int_equal(found.count, REVERSE_PATH_NAMES_MAX);
    assert_string_equal(found.names[REVERSE_PATH_NAMES_MAX - 1], "e15");
}

static void interfaces_with_a_strict_filter_leave_room_for_others(void **state) {
    char routes[1024] = HEAD;

    (void)state;
    for (int number = 0; number <= REVERSE_PATH_NAMES_MAX; number++)
        sprintf(routes + strlen(routes), "e%d\t0002000A\t00000000\n", number);
    strcat(routes, ROUTE("off"));
    assert_found(0, routes, "off ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_that_are_off_or_loose_are_found),
        cmocka_unit_test(the_higher_value_is_in_effect),
        cmocka_unit_test(a_single_interface_needs_no_filter),
        cmocka_unit_test(the_number_of_names_is_limited),
        cmocka_unit_test(interfaces_with_a_strict_filter_leave_room_for_others),
    };

    return cmocka_run_group_tests_name("reverse_path", tests, NULL, NULL);
}
