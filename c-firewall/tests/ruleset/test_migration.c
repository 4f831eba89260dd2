// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the counters, logs, limits and quotas that a policy takes over from its predecessor.
#include "ruleset/migration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handover/rules.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)
#define NOW_NS (1000 * SECOND)

enum {
    COUNTERS_MAX = 16,
    TEXT_BYTES = 1024,
};

/// Rule with a limit of more packets per second than nanoseconds: a packet costs nothing.
static const char endless[] = "limit rate 2000000000/second burst 4 packets comment \"a\"\n";

/// Writes a text to a file, and loads the file like the firewall.
static struct loaded *load_text(const char *text) {
    char path[] = "/tmp/twinwall-migration-XXXXXX";
    struct loaded *loaded = calloc(1, sizeof *loaded);
    struct options options = {.policy = path};
    struct failure failure;
    const int fd = mkstemp(path);

    assert_non_null(loaded);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    if (load(loaded, &options, &failure) < 0)
        fail_msg("%s", failure.text);
    unlink(path);
    return loaded;
}

static void unload(struct loaded *loaded) {
    load_free(loaded);
    free(loaded);
}

/// Writes a table with one chain of these rules to `text`.
static void print_chain(char text[static TEXT_BYTES], const char *rules) {
    snprintf(text, TEXT_BYTES, "table inet t {\n chain c {\n%s }\n}\n", rules);
}

static struct loaded *load_rules(const char *rules) {
    char text[TEXT_BYTES];

    print_chain(text, rules);
    return load_text(text);
}

/// Numbers of rules that a replacement of the policy has kept, added and removed.
struct figures {
    uint32_t kept, added, removed;
};

/// Replaces a policy whose counters and logs have the values 1, 2, 3, … by another policy.
static struct figures exchange(const struct loaded *old, struct loaded *new) {
    struct flow_counter counters[COUNTERS_MAX];
    uint64_t logged[COUNTERS_MAX];
    struct figures figures;
    struct migration migration;

    for (uint64_t i = 0; i < COUNTERS_MAX; i++) {
        counters[i] = (struct flow_counter){.packets = i + 1, .bytes = 10 * (i + 1)};
        logged[i] = i + 1;
    }
    assert_int_equal(migration_begin(&migration, old, new, NOW_NS), 0);
    migration_end(&migration, counters, logged, new);
    figures = (struct figures){migration.kept, migration.added, migration.removed};
    migration_free(&migration);
    return figures;
}

/// Replaces `old`, whose counters have the values 1, 2, 3, …, by `new`. Checks the initial value of
/// each counter of `new`: the number (from 1) of the counter of `old` that continues, or the value
/// in the text of `new`.
static void assert_texts(const char *old_text, const char *new_text, uint32_t count,
                         const uint64_t *expected) {
    struct loaded *old = load_text(old_text), *new = load_text(new_text);

    exchange(old, new);
    assert_int_equal(compile_counters(new->compiled), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(new->counted[i].packets, expected[i]);
        if (expected[i] < 10)
            assert_int_equal(new->counted[i].bytes, 10 * expected[i]);
    }
    unload(old);
    unload(new);
}

/// Checks the same as assert_texts, for policies with one chain of these rules.
static void assert_rules(const char *old, const char *new, uint32_t count,
                         const uint64_t *expected) {
    char old_text[TEXT_BYTES], new_text[TEXT_BYTES];

    print_chain(old_text, old);
    print_chain(new_text, new);
    assert_texts(old_text, new_text, count, expected);
}

#define COUNTERS(...)                                                                              \
    sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]) { __VA_ARGS__ }

static void the_same_text_stays_wherever_it_stands(void **state) {
    (void)state;
    assert_rules("tcp dport 1 counter\n tcp dport 2 counter accept\n",
                 "tcp dport 2 counter accept\n tcp dport 3 counter\n tcp dport 1 counter\n",
                 COUNTERS(2, 0, 1));
}

static void numbers_that_counters_start_with_are_no_part_of_the_text(void **state) {
    (void)state;
    assert_rules("tcp dport 1 counter packets 5 bytes 6\n",
                 "tcp dport 1 counter packets 70 bytes 80\n"
                 " tcp dport 2 counter packets 90 bytes 91\n",
                 COUNTERS(1, 90));
}

static void a_comment_is_no_part_of_the_text(void **state) {
    (void)state;
    assert_rules("tcp dport 1 counter\n tcp dport 2 counter comment \"b\"\n",
                 "tcp dport 1 counter comment \"a\"\n tcp dport 2 counter\n", COUNTERS(1, 2));
}

static void a_rule_with_the_same_comment_stays_whatever_it_says(void **state) {
    (void)state;
    // Rules are paired by comments first. Then the second new rule finds no old rule with its text,
    // because that rule has a partner.
    assert_rules("tcp dport 1 counter comment \"web\"\n tcp dport 2 counter\n",
                 "tcp dport 2 counter comment \"web\"\n tcp dport 1 counter\n", COUNTERS(1, 0));
}

static void a_comment_that_is_there_twice_tells_no_rule(void **state) {
    static const char twice[] =
        "tcp dport 1 counter comment \"a\"\n tcp dport 2 counter comment \"a\"\n";
    static const char once[] = "tcp dport 2 counter comment \"a\"\n tcp dport 3 counter\n";

    (void)state;
    assert_rules(twice, once, COUNTERS(2, 0));
    assert_rules(once, twice, COUNTERS(0, 1));
}

static void the_nth_of_equals_is_the_nth(void **state) {
    static const char old[] = "counter\n tcp dport 1 accept\n counter\n counter\n";

    (void)state;
    assert_rules(old, "counter\n counter\n", COUNTERS(1, 2));
    assert_rules(old, "counter\n counter\n counter\n counter\n", COUNTERS(1, 2, 3, 0));
}

static void rules_are_looked_for_in_their_own_chain(void **state) {
#define RULE "tcp dport 1 counter comment \"a\"\n"
    static const char same[] = "table inet t {\n chain c {\n" RULE " }\n}\n";

    (void)state;
    assert_texts(same, same, COUNTERS(1));
    assert_texts(same, "table inet t {\n chain d {\n" RULE " }\n}\n", COUNTERS(0));
    assert_texts(same, "table inet u {\n chain c {\n" RULE " }\n}\n", COUNTERS(0));
    assert_texts(same, "table ip t {\n chain c {\n" RULE " }\n}\n", COUNTERS(0));
#undef RULE
}

static void the_nth_counter_of_a_rule_is_the_nth(void **state) {
    (void)state;
    assert_rules("counter\n counter tcp dport 1 counter comment \"a\"\n",
                 "counter tcp dport 2 counter tcp sport 3 counter comment \"a\"\n",
                 COUNTERS(2, 3, 0));
}

static void logs_go_on_too(void **state) {
    struct loaded *old = load_rules("log\n tcp dport 1 log\n");
    struct loaded *new = load_rules("tcp dport 1 log\n tcp dport 2 log\n log\n");

    (void)state;
    exchange(old, new);
    assert_int_equal(new->logged[0], 2);
    assert_int_equal(new->logged[1], 0);
    assert_int_equal(new->logged[2], 1);
    unload(old);
    unload(new);
}

static void rules_are_counted(void **state) {
    struct loaded *old = load_rules("tcp dport 1 accept\n tcp dport 2 accept\n drop\n");
    struct loaded *new =
        load_rules("drop\n tcp dport 2 accept\n tcp dport 3 drop\n udp dport 4 drop\n");
    const struct figures figures = exchange(old, new);

    (void)state;
    assert_int_equal(figures.kept, 2);
    assert_int_equal(figures.added, 2);
    assert_int_equal(figures.removed, 1);
    unload(old);
    unload(new);
}

static bool quota_holds(struct loaded *loaded, uint32_t index, uint32_t bytes) {
    return flow_quota_holds(&loaded->flow, index, &loaded->compiled->quotas[index], bytes);
}

static void a_quota_goes_on_while_both_policies_decide(void **state) {
    struct loaded *old = load_rules("quota 100 bytes counter\n");
    struct loaded *new = load_rules("quota 100 bytes counter\n quota 100 bytes used 90 bytes\n");

    (void)state;
    exchange(old, new);
    assert_true(quota_holds(new, 0, 60));
    assert_true(quota_holds(old, 0, 40));
    assert_false(quota_holds(new, 0, 1));  // packets that the old policy accepted count
    assert_false(quota_holds(new, 1, 11)); // a new rule begins as its text says
    unload(old);
    unload(new);
}

/// Returns the number of packets, of `packets` packets, for which a policy's limit holds.
static uint32_t limit_holds(struct loaded *loaded, uint32_t packets) {
    uint32_t held = 0;

    for (uint32_t i = 0; i < packets; i++)
        held += flow_limit_holds(&loaded->flow, 0, &loaded->compiled->limits[0], 60, NOW_NS);
    return held;
}

static void a_limit_goes_on_while_both_policies_decide(void **state) {
    struct loaded *old = load_rules("limit rate 1/hour burst 2 packets accept\n");
    struct loaded *new = load_rules("limit rate 1/hour burst 2 packets accept\n");

    (void)state;
    exchange(old, new);
    assert_int_equal(limit_holds(old, 1), 1);
    assert_int_equal(limit_holds(new, 1), 1);
    assert_int_equal(limit_holds(old, 1), 0); // two packets, for both rules together
    assert_int_equal(limit_holds(new, 1), 0);
    unload(old);
    unload(new);
}

static void a_limit_with_other_figures_is_as_full_as_it_was(void **state) {
    struct loaded *old = load_rules("limit rate 1/hour burst 4 packets comment \"a\"\n");
    struct loaded *new = load_rules("limit rate 1/day burst 40 packets comment \"a\"\n");

    (void)state;
    assert_int_equal(limit_holds(old, 3), 3); // a quarter is left
    exchange(old, new);
    assert_int_equal(limit_holds(new, 40), 10);
    unload(old);
    unload(new);
}

static void a_full_limit_stays_full(void **state) {
    struct loaded *old = load_rules("limit rate 1/hour burst 4 packets comment \"a\"\n");
    struct loaded *new = load_rules("limit rate 1/hour burst 7 packets comment \"a\"\n");

    (void)state;
    exchange(old, new);
    assert_int_equal(limit_holds(new, 40), 7);
    unload(old);
    unload(new);
}

static void a_limit_that_is_never_exceeded_is_full_at_another_rate(void **state) {
    struct loaded *old = load_rules(endless);
    struct loaded *new = load_rules("limit rate 1/hour burst 4 packets comment \"a\"\n");

    (void)state;
    assert_int_equal(limit_holds(old, 100), 100);
    exchange(old, new);
    assert_int_equal(limit_holds(new, 40), 4);
    unload(old);
    unload(new);
}

static void a_limit_that_is_never_exceeded_is_handed_over(void **state) {
    struct loaded *old = load_rules(endless);
    struct handover_rules *writing = calloc(1, sizeof *writing);
    struct handover_sealed sealed;
    struct migration_side side;
    uint8_t *bytes;

    (void)state;
    assert_int_equal(handover_rules_begin(writing, old), 0);
    assert_int_equal(handover_rules_write(writing, old), 0);
    assert_int_equal(
        handover_sealed_open(&sealed, dup(writing->memory.fd), HANDOVER_RULES_BYTES_MAX), 0);
    assert_int_equal(handover_sealed_read(&sealed, &bytes), 0);
    assert_int_equal(handover_rules_parse(bytes, sealed.size, &side), 0);
    assert_int_equal(side.totals[MIGRATION_LIMITS], 1);
    assert_int_equal(side.limit_sizes[0], old->compiled->limits[0].size);
    migration_side_free(&side);
    handover_sealed_close(&sealed);
    handover_memory_close(&writing->memory);
    free(writing);
    free(bytes);
    unload(old);
}

static void what_goes_over_outlives_the_old_policy(void **state) {
    struct loaded *old = load_rules("quota 100 bytes\n");
    struct loaded *new = load_rules("quota 100 bytes\n");

    (void)state;
    exchange(old, new);
    assert_int_equal(new->flow.quota[0]->users, 2);
    unload(old);
    assert_int_equal(new->flow.quota[0]->users, 1);
    assert_true(quota_holds(new, 0, 100));
    unload(new);
}

/// Transfers the state of another process's policy to a policy, as in an upgrade.
/// - tokens: tokens of the limit of `old`.
/// - used: number of bytes that the quota of `old` has used.
static void refill(const struct loaded *old, struct loaded *new, int64_t tokens, uint64_t used) {
    const struct migration_states states = {&tokens, &used};
    struct migration_side olds, news;
    struct migration migration;

    assert_int_equal(migration_side_make(&olds, old), 0);
    assert_int_equal(migration_side_make(&news, new), 0);
    assert_int_equal(migration_pair(&migration, &olds, &news), 0);
    migration_refill(&migration, &old->compiled->limits[0].size, &states, new, NOW_NS);
    migration_free(&migration);
    migration_side_free(&olds);
    migration_side_free(&news);
}

static void states_of_another_process_go_on(void **state) {
    static const char text[] =
        "limit rate 1/hour burst 4 packets comment \"a\"\n quota 100 bytes\n";
    static const char other[] =
        "limit rate 1/day burst 40 packets comment \"a\"\n quota 100 bytes\n";
    struct loaded *old = load_rules(text), *same = load_rules(text), *new = load_rules(other);
    const int64_t size = old->compiled->limits[0].size;

    (void)state;
    refill(old, same, size / 4, 60);
    assert_int_equal(limit_holds(same, 40), 1);
    assert_true(quota_holds(same, 0, 40));
    assert_false(quota_holds(same, 0, 1));
    refill(old, new, size / 4, 0);
    assert_int_equal(limit_holds(new, 40), 10);
    unload(new);
    new = load_rules(other);
    refill(old, new, size, 0);
    assert_int_equal(limit_holds(new, 50), 40);
    unload(new);
    new = load_rules(other);
    refill(old, new, 0, 0);
    assert_int_equal(limit_holds(new, 50), 0);
    unload(old);
    unload(same);
    unload(new);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_text_stays_wherever_it_stands),
        cmocka_unit_test(numbers_that_counters_start_with_are_no_part_of_the_text),
        cmocka_unit_test(a_comment_is_no_part_of_the_text),
        cmocka_unit_test(a_rule_with_the_same_comment_stays_whatever_it_says),
        cmocka_unit_test(a_comment_that_is_there_twice_tells_no_rule),
        cmocka_unit_test(the_nth_of_equals_is_the_nth),
        cmocka_unit_test(rules_are_looked_for_in_their_own_chain),
        cmocka_unit_test(the_nth_counter_of_a_rule_is_the_nth),
        cmocka_unit_test(logs_go_on_too),
        cmocka_unit_test(rules_are_counted),
        cmocka_unit_test(a_quota_goes_on_while_both_policies_decide),
        cmocka_unit_test(a_limit_goes_on_while_both_policies_decide),
        cmocka_unit_test(a_limit_with_other_figures_is_as_full_as_it_was),
        cmocka_unit_test(a_full_limit_stays_full),
        cmocka_unit_test(a_limit_that_is_never_exceeded_is_full_at_another_rate),
        cmocka_unit_test(a_limit_that_is_never_exceeded_is_handed_over),
        cmocka_unit_test(what_goes_over_outlives_the_old_policy),
        cmocka_unit_test(states_of_another_process_go_on),
    };

    return cmocka_run_group_tests_name("migration", tests, NULL, NULL);
}
