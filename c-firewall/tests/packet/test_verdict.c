// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/verdict.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <stdlib.h>

#include "test.h"

static int make_batch(void **state) {
    *state = calloc(1, sizeof(struct verdict_batch));
    if (!*state)
        return -1;
    verdict_batch_begin(*state, VERDICT_DROP);
    return 0;
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
    assert_int_equal(run->gap, count == 0);
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

    batch->last_id = 4;
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

    batch->last_id = UINT32_MAX - 1;
    verdict_batch_add(batch, UINT32_MAX, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 0, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 1);
    assert_run(&batch->runs[0], NF_ACCEPT, UINT32_MAX, 1, 3);
}

/// A batch verdict applies to all waiting packets up to its ID. Therefore an ID that is not higher
/// than the previous ID begins another run (IDs with a common batch verdict).
static void an_earlier_id_begins_a_run(void **state) {
    struct verdict_batch *batch = *state;

    batch->last_id = 8;
    verdict_batch_add(batch, 9, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 8, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 8, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 9, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 3);
    assert_run(&batch->runs[2], NF_ACCEPT, 8, 9, 2);
    assert_int_equal(batch->gap_ids, 0);
}

/// The IDs of a gap get their verdict in a run of their own, before the next ID's run: otherwise
/// the batch verdict of the next ID's run would apply to them.
static void a_gap_gets_a_verdict_of_its_own(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 50, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 51, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 3);
    assert_run(&batch->runs[0], NF_ACCEPT, 1, 1, 1);
    assert_run(&batch->runs[1], NF_DROP, 2, 49, 0);
    assert_run(&batch->runs[2], NF_ACCEPT, 50, 51, 2);
    assert_int_equal(batch->gap_ids, 48);
    verdict_batch_clear(batch);
    assert_int_equal(batch->gap_ids, 0);
}

static void the_first_ids_of_a_queue_can_be_a_gap(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 3, VERDICT_DROP, 0);
    assert_int_equal(batch->count, 2);
    assert_run(&batch->runs[0], NF_DROP, 1, 2, 0);
    assert_run(&batch->runs[1], NF_DROP, 3, 3, 1);
}

static void gaps_get_the_verdict_that_was_asked_for(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_begin(batch, VERDICT_ACCEPT);
    verdict_batch_add(batch, 2, VERDICT_DROP, 0);
    assert_run(&batch->runs[0], NF_ACCEPT, 1, 1, 0);
}

static void a_gap_wraps(void **state) {
    struct verdict_batch *batch = *state;

    batch->last_id = UINT32_MAX - 1;
    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 2);
    assert_run(&batch->runs[0], NF_DROP, UINT32_MAX, 0, 0);
    assert_int_equal(batch->gap_ids, 2);
}

static void gaps_are_explained_by_messages_and_overruns(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_skip(batch);
    verdict_batch_skip(batch);
    verdict_batch_add(batch, 3, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->gap_ids, 0);
    verdict_batch_skip(batch);
    verdict_batch_add(batch, 6, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->gap_ids, 1);
    verdict_batch_overrun(batch);
    verdict_batch_add(batch, 900, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->gap_ids, 1);
    verdict_batch_add(batch, 902, VERDICT_ACCEPT, 0); // an overrun explains a gap
    assert_int_equal(batch->gap_ids, 2);
    assert_int_equal(batch->count, 8);
}

/// The packets of messages without a readable ID at the end of a batch get a verdict: otherwise
/// these packets would wait for the next message.
static void what_has_no_id_is_answered_at_the_end(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_skip(batch);
    verdict_batch_skip(batch);
    verdict_batch_finish(batch);
    assert_int_equal(batch->count, 2);
    assert_run(&batch->runs[1], NF_DROP, 2, 3, 0);
    verdict_batch_clear(batch);
    verdict_batch_finish(batch);
    assert_int_equal(batch->count, 0);
    verdict_batch_add(batch, 4, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 1);
    assert_int_equal(batch->gap_ids, 0);
}

/// In a queue that was taken over, all packets before the first received ID are answered as a gap.
static void an_unknown_beginning_is_a_gap(void **state) {
    struct verdict_batch *batch = *state;

    verdict_batch_forget(batch);
    verdict_batch_skip(batch);
    verdict_batch_finish(batch);
    assert_int_equal(batch->count, 0);
    verdict_batch_add(batch, 700, VERDICT_ACCEPT, 0);
    assert_int_equal(batch->count, 2);
    assert_int_equal(batch->runs[0].last_id, 699);
    assert_true(batch->runs[0].gap);
    assert_int_equal(batch->gap_ids, 0);
}

static void a_full_batch_is_left_as_it_is(void **state) {
    struct verdict_batch *batch = *state;

    for (uint32_t i = 1; i <= VERDICT_PACKETS_MAX; i++)
        assert_int_equal(verdict_batch_add(batch, 2 * i, VERDICT_ACCEPT, 0), 0);
    assert_int_equal(batch->count, VERDICT_RUNS_MAX - 1);
    assert_int_equal(verdict_batch_add(batch, 3000, VERDICT_ACCEPT, 0), -ENOBUFS);
    assert_int_equal(batch->count, VERDICT_RUNS_MAX - 1);
    verdict_batch_skip(batch);
    verdict_batch_finish(batch);
    assert_int_equal(batch->count, VERDICT_RUNS_MAX);
    assert_true(verdict_batch_unsent(batch));
    batch->sent = batch->count;
    assert_false(verdict_batch_unsent(batch));
    verdict_batch_clear(batch);
    assert_int_equal(batch->count, 0);
    assert_int_equal(batch->sent, 0);
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
        WITH_BATCH(a_gap_gets_a_verdict_of_its_own),
        WITH_BATCH(the_first_ids_of_a_queue_can_be_a_gap),
        WITH_BATCH(gaps_get_the_verdict_that_was_asked_for),
        WITH_BATCH(a_gap_wraps),
        WITH_BATCH(gaps_are_explained_by_messages_and_overruns),
        WITH_BATCH(what_has_no_id_is_answered_at_the_end),
        WITH_BATCH(an_unknown_beginning_is_a_gap),
        WITH_BATCH(a_full_batch_is_left_as_it_is),
    };

    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
