// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/stage.h"

#include "test.h"

enum { MASK = 0x0ff0, FOREIGN = 0x7000f };

/// Returns the mark of a packet after stage_tell has replaced a policy's outcome.
/// - state: state of the names of the packet's connection.
/// - is_settled, before, outcome: arguments of stage_tell; outcome is the policy's.
static uint32_t told(enum names_state state, bool is_settled, const uint32_t *before,
                     struct decide_outcome outcome) {
    const struct names names = {.state = state};
    const struct decide_input input = {.names = &names, .mark = FOREIGN | 0x0800};

    stage_tell(MASK, &input, is_settled, before, &outcome);
    assert_int_equal(outcome.verdict, VERDICT_ACCEPT);
    assert_true(outcome.mark_set);
    return outcome.mark;
}

static const struct decide_outcome class_2 = {
    .verdict = VERDICT_ACCEPT, .mark_set = true, .mark = 0x20};
static const struct decide_outcome unknown = {.verdict = VERDICT_DROP, .undecided = true};

static void a_class_keeps_foreign_bits(void **state) {
    (void)state;
    assert_int_equal(told(NAMES_KNOWN, false, NULL, class_2), FOREIGN | 0x020);
    assert_int_equal(told(NAMES_KNOWN, true, NULL, class_2), FOREIGN | 0x820);
}

static void what_is_not_known_is_accepted(void **state) {
    (void)state;
    assert_int_equal(told(NAMES_UNDECIDED, false, NULL, unknown), FOREIGN | 0xff0);
    assert_int_equal(told(NAMES_UNREADABLE, false, NULL, unknown), FOREIGN | 0x7f0);
}

static void queries_of_different_classes_have_none(void **state) {
    const uint32_t same = FOREIGN | 0x020, other = FOREIGN | 0x030;

    (void)state;
    assert_int_equal(told(NAMES_KNOWN, false, &same, class_2), same);
    assert_int_equal(told(NAMES_KNOWN, false, &other, class_2), FOREIGN | 0x7f0);
}

static void what_rules_did_not_decide_stays(void **state) {
    const struct names names = {.state = NAMES_KNOWN};
    const struct decide_input input = {.names = &names, .mark = FOREIGN};
    struct decide_outcome outcome = {.verdict = VERDICT_DROP, .by = DECIDE_BY_FAIL};

    (void)state;
    stage_tell(MASK, &input, true, NULL, &outcome);
    assert_int_equal(outcome.verdict, VERDICT_DROP);
    assert_false(outcome.mark_set);
}

static void the_reset_of_a_refused_connection_passes(void **state) {
    const struct decide_input input = {.mark = FOREIGN | 0x820};
    struct decide_outcome outcome = {.verdict = VERDICT_REJECT, .by = DECIDE_BY_RULE};

    (void)state;
    assert_true(stage_is_refused(MASK, &outcome));
    assert_false(stage_is_refused(0, &outcome));
    stage_pass(MASK, &input, &outcome);
    assert_int_equal(outcome.verdict, VERDICT_ACCEPT);
    assert_true(outcome.mark_set);
    assert_int_equal(outcome.mark, FOREIGN);
}

static void the_highest_and_the_lowest_bit_teach(void **state) {
    static const uint32_t others[] = {0, FOREIGN, 0x800, 0x010, 0x820, 0x830, 0x7f0, 0xff0};

    (void)state;
    assert_true(stage_teaches(MASK, FOREIGN | 0x810));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(stage_teaches(MASK, others[i]));
    assert_false(stage_teaches(0, 0));
}

static void a_mark_waits_until_names_are_final(void **state) {
    struct decide_outcome outcome = {
        .verdict = VERDICT_ACCEPT, .mark_set = true, .mark = 0x80000001};

    (void)state;
    stage_withhold(0x80000000, true, &outcome);
    assert_int_equal(outcome.mark, 0x80000001);
    stage_withhold(0x80000000, false, &outcome);
    assert_true(outcome.mark_set);
    assert_int_equal(outcome.mark, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_keeps_foreign_bits),
        cmocka_unit_test(what_is_not_known_is_accepted),
        cmocka_unit_test(queries_of_different_classes_have_none),
        cmocka_unit_test(what_rules_did_not_decide_stays),
        cmocka_unit_test(the_reset_of_a_refused_connection_passes),
        cmocka_unit_test(the_highest_and_the_lowest_bit_teach),
        cmocka_unit_test(a_mark_waits_until_names_are_final),
    };

    return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
