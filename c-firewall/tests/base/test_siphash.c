// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of SipHash-1-3, with values from the tests of the Rust library. The key is the bytes 0 to
// 15, the message the bytes from 0 on.
#include "base/siphash.h"

#include "test.h"

static const struct siphash_key key = {{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL}};

static void gives_the_known_values(void **state) {
    static const uint64_t message[] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL,
                                       0x1716151413121110ULL};

    (void)state;
    assert_true(siphash_words(&key, message, 0) == 0xabac0158050fc4dcULL);
    assert_true(siphash_words(&key, message, 1) == 0x369095118d299a8eULL);
    assert_true(siphash_words(&key, message, 2) == 0xcc4fdd1a7d908b66ULL);
    assert_true(siphash_words(&key, message, 3) == 0xf464aeb267349c8cULL);
    assert_true(siphash_narrow(&key, 0x03020100) == 0xcf75576088d38328ULL);
}

/// Tests that siphash_bytes, which appends the byte `last`, returns the same hash as siphash_narrow
/// for the same 4 bytes, and as siphash_words for the same 8 and 16 bytes.
static void bytes_are_hashed_as_words(void **state) {
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

    (void)state;
    assert_true(siphash_bytes(&key, bytes, 3, 3) == siphash_narrow(&key, 0x03020100));
    assert_true(siphash_bytes(&key, bytes, 7, 7) == 0x369095118d299a8eULL);
    assert_true(siphash_bytes(&key, bytes, 15, 15) == 0xcc4fdd1a7d908b66ULL);
}

static void draws_another_key_each_time(void **state) {
    const struct siphash_key one = siphash_draw(), other = siphash_draw();

    (void)state;
    assert_memory_not_equal(&one, &other, sizeof one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_known_values),
        cmocka_unit_test(bytes_are_hashed_as_words),
        cmocka_unit_test(draws_another_key_each_time),
    };

    return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
