// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/mnl.h"

#include <stdlib.h>

#include "messages.h"
#include "queue/raw.h"
#include "test.h"

static void vectors_parse_as_expected(void **state) {
    (void)state;
    messages_assert_vectors(queue_mnl_parse, NULL);
}

static void every_field_is_taken(void **state) {
    (void)state;
    messages_assert_full(queue_mnl_parse);
}

static void verdicts_are_those_of_the_raw_backend(void **state) {
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    _Alignas(4) uint8_t mnl[6 * QUEUE_VERDICT_BYTES], raw[sizeof mnl];
    size_t length;

    (void)state;
    verdict_batch_begin(batch, VERDICT_DROP);
    verdict_batch_add(batch, 1, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 2, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 3, VERDICT_DROP, 0);
    verdict_batch_add(batch, 4, VERDICT_MARK, 77);
    verdict_batch_add(batch, 5, VERDICT_MARK, 77);
    verdict_batch_add(batch, 6, VERDICT_REQUEUE, 9);
    verdict_batch_add(batch, UINT32_MAX / 2, VERDICT_REPEAT, 0);
    assert_int_equal(batch->count, 6); // the gap before the last packet, too
    length = queue_raw_build_verdicts(65535, batch->runs, batch->count, raw);
    assert_int_equal(length, 5 * 32 + 40);
    assert_int_equal(queue_mnl_build_verdicts(65535, batch->runs, batch->count, mnl), length);
    assert_memory_equal(mnl, raw, length);
    free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_parse_as_expected),
        cmocka_unit_test(every_field_is_taken),
        cmocka_unit_test(verdicts_are_those_of_the_raw_backend),
    };

    return cmocka_run_group_tests_name("queue_mnl", tests, NULL, NULL);
}
