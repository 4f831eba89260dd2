// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/queue_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

/// Checks the kinds of the rules, and those of the queues 3 to 5 that they reach, in one line:
/// "plain bypass 3 4 5".
static void assert_feed(const struct queue_rules *queue_rules, const char *expected) {
    char *told = NULL;
    size_t length;
    FILE *out = open_memstream(&told, &length);

    assert_non_null(out);
    fprintf(out, "%s%s", queue_rules->plain ? "plain " : "", queue_rules->bypass ? "bypass " : "");
    for (uint32_t number = queue_rules->first; number <= queue_rules->last; number++)
        if (queue_rules->reached[number - queue_rules->first])
            fprintf(out, "%u ", number);
    fclose(out);
    assert_string_equal(told, expected);
    free(told);
}

static void assert_save(const char *text, const char *expected) {
    struct queue_rules queue_rules;

    queue_rules_begin(&queue_rules, 3, 5);
    queue_rules_take_save(&queue_rules, text);
    assert_feed(&queue_rules, expected);
}

static void rules_of_iptables_save(void **state) {
    (void)state;
    assert_save("", "");
    assert_save("-A INPUT -j NFQUEUE --queue-num 3\n", "plain 3 ");
    assert_save("-A INPUT -p udp -j NFQUEUE --queue-num 4 --queue-bypass", "bypass 4 ");
    assert_save("-A x -j NFQUEUE --queue-balance 0:4 --queue-bypass --queue-cpu-fanout\n",
                "bypass 3 4 ");
    assert_save("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j NFQUEUE --queue-num 3\n"
                "-A INPUT -j NFQUEUE --queue-balance 5:9 --queue-bypass\nCOMMIT\n",
                "plain bypass 3 5 ");
    assert_save("-A INPUT -j NFQUEUE --queue-num 2\n-A INPUT -j NFQUEUE --queue-num 6\n", "");
    assert_save("-A INPUT -j ACCEPT --queue-num 3\n", "");
    assert_save("#-A INPUT -j NFQUEUE --queue-num 3\n", "");
}

static void what_stands_in_quotes_is_no_rule(void **state) {
    (void)state;
    assert_save("-A INPUT -m comment --comment \"-j NFQUEUE --queue-num 3\" -j ACCEPT\n", "");
    assert_save("-A INPUT -m comment --comment \"a \\\" -j NFQUEUE\" -j ACCEPT\n", "");
    assert_save("-A INPUT -m comment --comment \"--queue-bypass\" -j NFQUEUE --queue-num 3\n",
                "plain 3 ");
}

static void assert_nft(const char *statement, const char *expected) {
    char text[512];
    struct queue_rules queue_rules;

    snprintf(text, sizeof text,
             "{\"nftables\":[{\"metainfo\":{}},{\"rule\":{\"expr\":[{\"counter\":null},%s]}}]}",
             statement);
    queue_rules_begin(&queue_rules, 3, 5);
    assert_int_equal(queue_rules_take_nft(&queue_rules, text), 0);
    assert_feed(&queue_rules, expected);
}

static void rules_of_nft(void **state) {
    (void)state;
    assert_nft("{\"accept\":null}", "");
    assert_nft("{\"queue\":{\"num\":4}}", "plain 4 ");
    assert_nft("{\"queue\":{\"num\":6}}", "");
    assert_nft("{\"queue\":null}", "");
    assert_nft("{\"queue\":{\"num\":4,\"flags\":\"bypass\"}}", "bypass 4 ");
    assert_nft("{\"queue\":{\"num\":4,\"flags\":\"fanout\"}}", "plain 4 ");
    assert_nft("{\"queue\":{\"num\":{\"range\":[1,4]},\"flags\":[\"bypass\",\"fanout\"]}}",
               "bypass 3 4 ");
    assert_nft("{\"queue\":{\"num\":{\"jhash\":{\"mod\":4}}}}", "plain 3 4 5 ");
    assert_nft("{\"queue\":{\"num\":3}},{\"queue\":{\"num\":5,\"flags\":\"bypass\"}}",
               "plain bypass 3 5 ");
}

static void what_is_no_ruleset_is_refused(void **state) {
    const char *const texts[] = {"", "{", "[]", "{\"nftables\":{}}", "null"};
    struct queue_rules queue_rules;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        queue_rules_begin(&queue_rules, 0, 0);
        assert_int_equal(queue_rules_take_nft(&queue_rules, texts[i]), -EBADMSG);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_iptables_save),
        cmocka_unit_test(what_stands_in_quotes_is_no_rule),
        cmocka_unit_test(rules_of_nft),
        cmocka_unit_test(what_is_no_ruleset_is_refused),
    };

    return cmocka_run_group_tests_name("queue_rules", tests, NULL, NULL);
}
