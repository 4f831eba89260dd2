// SPDX-License-Identifier: GPL-2.0-or-later
#include "verdict.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <stdlib.h>

#include "test.h"

static int make_batch(void **state) {
    *state = calloc(1, sizeof(struct verdict_batch));
    return *state ? 0 : -1;
}

static int free_batch(void **state) {
    free(*state);
    return 0;
}

static void assert_run(const struct verdict_run *run, uint32_t kernel, uint32_t first_id,
                       uint32_t last_id, uint32_t count) {
    assert_int_equal(run->kernel, kernel);
    assert_int_equal(run->first_id, first_id);
    assert_int_equal(run->last_id, last_id);
    assert_int_equal(run->count, count);
}

static void kernel_values(void **state) {
    (void)state;
    assert_int_equal(verdict_kernel(VERDICT_ACCEPT, 7), NF_ACCEPT);
    assert_int_equal(verdict_kernel(VERDICT_DROP, 7), NF_DROP);
    assert_int_equal(verdict_kernel(VERDICT_REJECT, 7), NF_DROP);
    assert_int_equal(verdict_kernel(VERDICT_MARK, 7), NF_ACCEPT);
    assert_int_equal(verdict_kernel(VERDICT_REPEAT, 7), NF_REPEAT);
    assert_int_equal(verdict_kernel(VERDICT_REQUEUE, 7), 7 << 16 | NF_QUEUE);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(verdict_name(VERDICT_ACCEPT), "accept");
    assert_string_equal(verdict_name(VERDICT_DROP), "drop");
    assert_string_equal(verdict_name(VERDICT_REJECT), "reject");
    assert_string_equal(verdict_name(VERDICT_MARK), "mark");
    assert_string_equal(verdict_name(VERDICT_REPEAT), "repeat");
    assert_string_equal(verdict_name(VERDICT_REQUEUE), "requeue");
}

static void neighbours_with_one_verdict_are_one_run(void **state) {
    struct verdict_batch *batch = *state;

    for (uint32_t id = 5; id < 9; id++)
        assert_int_equal(verdict_batch_add(batch, id, VERDICT_ACCEPT, 0), 0);
    assert_int_equal(batch->count, 1);
    assert_run(&batch->runs[0], NF_ACCEPT, 5, 8, 4);
}

static void another_verdict_begins_a_run_in_order(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 2, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 3, VERDICT_DROP, 0);
    verdict_batch_add(batch, 4, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 3);
    assert_run(&batch->runs[0], NF_ACCEPT, 1, 2, 2);
    assert_run(&batch->runs[1], NF_DROP, 3, 3, 1);
    assert_run(&batch->runs[2], NF_ACCEPT, 4, 4, 1);
}

static void drop_and_reject_are_one_to_the_kernel(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_DROP, 0);
    verdict_batch_add(batch, 2, VERDICT_REJECT, 0);
    assert_int_equal(batch->count, 1);
    assert_run(&batch->runs[0], NF_DROP, 1, 2, 2);
}

static void marks_and_queues_divide_runs(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_MARK, 0x10);
    verdict_batch_add(batch, 2, VERDICT_MARK, 0x10);
    verdict_batch_add(batch, 3, VERDICT_MARK, 0x20);
    verdict_batch_add(batch, 4, VERDICT_MARK, 0);
    verdict_batch_add(batch, 5, VERDICT_ACCEPT, 0x20);
    verdict_batch_add(batch, 6, VERDICT_REQUEUE, 1);
    verdict_batch_add(batch, 7, VERDICT_REQUEUE, 2);
    assert_int_equal(batch->count, 6);
    assert_run(&batch->runs[0], NF_ACCEPT, 1, 2, 2);
    assert_true(batch->runs[0].has_mark);
    assert_int_equal(batch->runs[0].mark, 0x10);
    assert_int_equal(batch->runs[1].mark, 0x20);
    assert_true(batch->runs[2].has_mark); // a mark of 0 is a mark
    assert_false(batch->runs[3].has_mark);
    assert_int_equal(batch->runs[3].mark, 0);
    assert_run(&batch->runs[5], 2 << 16 | NF_QUEUE, 7, 7, 1);
}

static void ids_wrap_within_a_run(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, UINT32_MAX, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 0, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 1);
    assert_run(&batch->runs[0], NF_ACCEPT, UINT32_MAX, 1, 3);
}

/// A batch verdict covers every id up to its own, so an earlier id can't be covered by a later
/// message.
static void an_earlier_id_begins_a_run(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 9, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 8, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 8, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 3);
}

static void a_gap_in_the_ids_is_no_end(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 50, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 1);
    assert_run(&batch->runs[0], NF_ACCEPT, 1, 50, 2);
}

static void a_full_batch_is_left_as_it_is(void **state) {
    struct verdict_batch *batch = *state;

    for (uint32_t id = 0; id < VERDICT_RUNS_MAX; id++)
        assert_int_equal(verdict_batch_add(batch, id, id % 2 ? VERDICT_DROP : VERDICT_ACCEPT, 0),
                         0);
    assert_int_equal(verdict_batch_add(batch, VERDICT_RUNS_MAX, VERDICT_ACCEPT, 0), -ENOBUFS);
    assert_int_equal(batch->count, VERDICT_RUNS_MAX);
    // The last run can still grow.
    assert_int_equal(verdict_batch_add(batch, VERDICT_RUNS_MAX, VERDICT_DROP, 0), 0);
    assert_run(&batch->runs[VERDICT_RUNS_MAX - 1], NF_DROP, VERDICT_RUNS_MAX - 1, VERDICT_RUNS_MAX,
               2);
    verdict_batch_clear(batch);
    assert_int_equal(batch->count, 0);
}

#define WITH_BATCH(test) cmocka_unit_test_setup_teardown(test, make_batch, free_batch)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_values),
        cmocka_unit_test(names),
        WITH_BATCH(neighbours_with_one_verdict_are_one_run),
        WITH_BATCH(another_verdict_begins_a_run_in_order),
        WITH_BATCH(drop_and_reject_are_one_to_the_kernel),
        WITH_BATCH(marks_and_queues_divide_runs),
        WITH_BATCH(ids_wrap_within_a_run),
        WITH_BATCH(an_earlier_id_begins_a_run),
        WITH_BATCH(a_gap_in_the_ids_is_no_end),
        WITH_BATCH(a_full_batch_is_left_as_it_is),
    };

    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
