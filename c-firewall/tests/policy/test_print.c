// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the print of single rules and values. (tests/corpus/policy tests the print of whole
// policies.)
#include "policy/print.h"

#include <stdlib.h>
#include <string.h>

#include "policy/parse/parse.h"
#include "test.h"

static const char text[] = "table ip6 t {\n"
                           "chain c {\n"
                           "tcp dport 22 counter reject comment \"a\"\n"
                           "tcp flags syn,ack reject with tcp reset\n"
                           "}\n"
                           "}\n";

static void check(char *printed, const char *expected) {
    assert_non_null(printed);
    assert_string_equal(printed, expected);
    free(printed);
}

static void rules_are_one_line(void **state) {
    struct policy policy = {0};
    struct failure failure;
    const struct policy_table *table;
    const struct policy_rule *rules;

    (void)state;
    assert_int_equal(parse_text("t", (const uint8_t *)text, strlen(text), &policy, &failure), 0);
    table = &policy.tables[0];
    rules = table->chains[0].rules;
    check(print_rule(&policy, table, &rules[0]),
          "tcp dport 22 counter packets 0 bytes 0 reject comment \"a\"");
    check(print_rule(&policy, table, &rules[1]), "tcp flags syn,ack reject with tcp reset");
    policy_free(&policy);
}

static void values_are_printed_by_their_type(void **state) {
    (void)state;
    check(print_value(POLICY_IPV4_ADDR, 0xc0000201), "192.0.2.1");
    check(print_value(POLICY_TCP_FLAG, 0x12), "syn,ack");
    check(print_value(POLICY_MARK, 1), "0x00000001");
    check(print_value(POLICY_INTEGER, 1500), "1500");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_one_line),
        cmocka_unit_test(values_are_printed_by_their_type),
    };

    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
