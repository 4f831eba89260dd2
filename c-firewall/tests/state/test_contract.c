// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/contract.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static struct options make_options(void) {
    return (struct options){
        .queue_length = 7, .deadline_ms = 1000, .copy_bytes = 128, .undecided_bytes = 8192};
}

static const struct contract_facts facts = {.receive_buffer = 4096, .figures = true, .guard = true};

/// Checks the row of a situation in a failure contract: its mode, and the effect in `really`.
static void assert_row(const struct options *options, const struct queue_rules *queue_rules,
                       const struct contract_facts *kernel, enum options_situation situation,
                       const char *expected) {
    struct contract contract;

    contract_make(options, queue_rules, kernel, &contract);
    assert_int_equal(contract.rows[situation].situation, situation);
    assert_int_equal(contract.rows[situation].open, options->fail_open[situation]);
    assert_string_equal(contract.rows[situation].really, expected);
}

static void closed_drops_and_counts(void **state) {
    const struct options options = make_options();
    const struct queue_rules queue_rules = {.plain = true};

    (void)state;
    assert_row(&options, &queue_rules, &facts, OPTIONS_OVERLOAD,
               "dropped: counted as user drop if the socket's 4096 bytes are full, as queue full "
               "if 7 packets wait");
    assert_row(&options, &queue_rules, &facts, OPTIONS_STALL,
               "dropped by the guard when none was answered for 1000 ms");
    assert_row(&options, &queue_rules, &facts, OPTIONS_CRASH,
               "waiting packets are dropped, then the rules drop packets: they have no bypass");
    assert_row(&options, &queue_rules, &facts, OPTIONS_MALFORMED,
               "dropped, counted by reason, as far as the first 128 bytes show");
    assert_row(&options, &queue_rules, &facts, OPTIONS_TRUNCATED, "dropped, counted as truncated");
    assert_row(&options, &queue_rules, &facts, OPTIONS_UNKNOWN, "never: there is no policy");
}

static void open_accepts(void **state) {
    struct options options = make_options();
    const struct queue_rules queue_rules = {.plain = true};

    (void)state;
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        options.fail_open[i] = true;
    options.policy = "web.nft";
    assert_row(&options, &queue_rules, &facts, OPTIONS_OVERLOAD,
               "passes unseen: counted as unseen if the socket's 4096 bytes are full, by nobody if "
               "7 packets wait");
    assert_row(&options, &queue_rules, &facts, OPTIONS_STALL,
               "accepted by the guard when none was answered for 1000 ms");
    assert_row(&options, &queue_rules, &facts, OPTIONS_CRASH,
               "the guard accepts everything until SIGTERM or the next start");
    assert_row(&options, &queue_rules, &facts, OPTIONS_MALFORMED,
               "accepted, counted by reason, as far as the first 128 bytes show");
    assert_row(&options, &queue_rules, &facts, OPTIONS_TRUNCATED,
               "accepted, counted as truncated or undecidable");
    assert_row(&options, &queue_rules, &facts, OPTIONS_UNKNOWN,
               "accepted at the first rule that reads it, as beyond 8192 undecided bytes each way");
    options.malformed_by_policy = true;
    assert_row(&options, &queue_rules, &facts, OPTIONS_MALFORMED,
               "the policy decides: --malformed policy");
}

static void what_can_not_be_had_is_told(void **state) {
    const struct contract_facts blind = {.receive_buffer = 4096};
    const struct contract_facts unguarded = {.receive_buffer = 4096, .figures = true};
    struct options options = make_options();
    const struct queue_rules queue_rules = {0}, plain = {.plain = true};

    (void)state;
    assert_row(&options, &queue_rules, &blind, OPTIONS_STALL,
               "waits for ever: /proc/net/netfilter/nfnetlink_queue can't be read");
    assert_row(&options, &queue_rules, &unguarded, OPTIONS_STALL,
               "waits for ever: the guard has ended");
    options.fail_open[OPTIONS_CRASH] = true;
    assert_row(&options, &plain, &unguarded, OPTIONS_CRASH,
               "the guard has ended: waiting packets are dropped, then the rules drop packets: "
               "they have no bypass");
    options.deadline_ms = 0;
    assert_row(&options, &queue_rules, &facts, OPTIONS_STALL, "waits for ever: --deadline is 0");
}

static void a_crash_leaves_it_to_the_rules(void **state) {
    static const struct {
        struct queue_rules queue_rules;
        const char *expected;
    } cases[] = {
        {{.bypass = true},
         "waiting packets are dropped, then packets pass: the rules have a bypass"},
        {{.plain = true, .bypass = true},
         "waiting packets are dropped, then rules with a bypass let packets pass, others drop "
         "them"},
        {{.plain = false},
         "waiting packets are dropped, then the rules decide, of which there is none for this "
         "queue yet"},
        {{.unknown = "nft is not there"},
         "waiting packets are dropped, then the rules decide, as far as can be known: nft is not "
         "there"},
        {{.plain = true, .unknown = "ip6tables-save failed"},
         "waiting packets are dropped, then the rules drop packets: they have no bypass, as far as "
         "can be known: ip6tables-save failed"},
    };
    const struct options options = make_options();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_row(&options, &cases[i].queue_rules, &facts, OPTIONS_CRASH, cases[i].expected);
}

/// Failure contract with --stage: with --fail open, packets pass the firewall without a class, and
/// the kernel's rules decide them.
static void the_stage_leaves_it_to_the_split_rules(void **state) {
    static const char then[] =
        "; then dropped by the kernel's rules, unless split with --bypass or --unknown-open";
    static const char unreadable[] =
        "dropped at the kernel's first rule that reads it, as beyond 8192 undecided bytes each "
        "way, unless split with --unknown-open; before these bytes as split with --undecided";
    const struct queue_rules plain = {.plain = true}, bypass = {.bypass = true};
    struct options closed = make_options(), open;
    struct contract contract;

    (void)state;
    closed.policy = "web.nft";
    closed.stage = 0xffff0000;
    open = closed;
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        open.fail_open[i] = true;
    contract_make(&closed, &plain, &facts, &contract);
    for (int i = OPTIONS_OVERLOAD; i < OPTIONS_UNKNOWN; i++)
        assert_null(strstr(contract.rows[i].really, "split"));
    contract_make(&open, &plain, &facts, &contract);
    for (int i = OPTIONS_OVERLOAD; i < OPTIONS_UNKNOWN; i++)
        assert_string_equal(strstr(contract.rows[i].really, "; then"), then);
    assert_row(&closed, &plain, &facts, OPTIONS_UNKNOWN, unreadable);
    assert_row(&open, &plain, &facts, OPTIONS_UNKNOWN, unreadable);
    assert_row(&closed, &bypass, &facts, OPTIONS_CRASH,
               "waiting packets are dropped, then names are not known yet: the rules have a "
               "bypass");
}

static void it_is_a_table_and_an_array(void **state) {
    struct contract contract = {0};
    char *text = NULL;
    size_t length;
    json_t *array;
    FILE *out;

    (void)state;
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        contract.rows[i] = (struct contract_row){
            .situation = (enum options_situation)i, .open = i == 1, .really = "so"};
    out = open_memstream(&text, &length);
    assert_non_null(out);
    contract_print(out, &contract);
    fclose(out);
    assert_string_equal(text, "  overload   closed  so\n"
                              "  stall      open    so\n"
                              "  crash      closed  so\n"
                              "  malformed  closed  so\n"
                              "  truncated  closed  so\n"
                              "  unknown    closed  so\n");
    free(text);
    array = contract_array(&contract);
    assert_int_equal(json_array_size(array), OPTIONS_SITUATION_COUNT);
    text = json_dumps(json_array_get(array, 1), JSON_COMPACT | JSON_PRESERVE_ORDER);
    assert_string_equal(text, "{\"situation\":\"stall\",\"mode\":\"open\",\"really\":\"so\"}");
    free(text);
    json_decref(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_drops_and_counts),
        cmocka_unit_test(open_accepts),
        cmocka_unit_test(what_can_not_be_had_is_told),
        cmocka_unit_test(a_crash_leaves_it_to_the_rules),
        cmocka_unit_test(the_stage_leaves_it_to_the_split_rules),
        cmocka_unit_test(it_is_a_table_and_an_array),
    };

    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
