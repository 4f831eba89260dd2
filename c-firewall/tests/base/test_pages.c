// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/pages.h"

#include "test.h"

#define HUGE_BYTES ((size_t)2 << 20)

static void whole_pages_are_made(void **state) {
    (void)state;
    assert_int_equal(pages_round(1), 4096);
    assert_int_equal(pages_round(4096), 4096);
    assert_int_equal(pages_round(4097), 2 * 4096);
    assert_int_equal(pages_round(HUGE_BYTES - 1), HUGE_BYTES);
    assert_int_equal(pages_round(HUGE_BYTES), HUGE_BYTES);
    assert_int_equal(pages_round(HUGE_BYTES + 1), 2 * HUGE_BYTES);
}

static void memory_is_zero_and_keeps_words(void **state) {
    static const size_t sizes[] = {100, 5000, HUGE_BYTES + 1};

    (void)state;
    pages_free(NULL, 100);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *memory = pages_make(sizes[i]);
        const size_t last = pages_round(sizes[i]) - 8;

        assert_non_null(memory);
        for (size_t at = 0; at <= last; at += 8)
            assert_true(pages_word(memory, at) == 0);
        pages_set_word(memory, 3, 0x0123456789abcdefULL);
        pages_set_word(memory, last, 7);
        assert_true(pages_word(memory, 3) == 0x0123456789abcdefULL);
        assert_int_equal(memory[2] + memory[11], 0);
        assert_true(pages_word(memory, last) == 7);
        pages_free(memory, sizes[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_pages_are_made),
        cmocka_unit_test(memory_is_zero_and_keeps_words),
    };

    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
