// SPDX-License-Identifier: GPL-2.0-or-later
// Compares streams of random pieces with a plain array.
#include "connection/stream.h"

#include <stdlib.h>
#include <string.h>

#include "connection/pool.h"
#include "random.h"
#include "test.h"

enum {
    ROUNDS = 90,
    PIECES = 60,
};

/// Returns the byte of the test data at an offset.
static uint8_t byte_at(uint32_t place) { return (uint8_t)(place * 2654435761U >> 24); }

/// Returns the number of runs of stored bytes. A run has no gap.
/// - there: true for each offset whose byte is stored.
static uint32_t runs(const bool *there) {
    uint32_t count = 0;

    for (uint32_t at = 0; at < STREAM_BYTES_MAX; at++)
        count += there[at] && (at == 0 || !there[at - 1]);
    return count;
}

/// Checks the length and the bytes of the stream before its first gap.
static void check_prefix(const struct stream *stream, struct connection_pool *pool,
                         const bool *there) {
    static uint8_t out[STREAM_BYTES_MAX];
    uint32_t prefix = 0;

    while (prefix < STREAM_BYTES_MAX && there[prefix])
        prefix++;
    assert_int_equal(stream_prefix(stream), prefix);
    stream_gather(stream, pool, 0, prefix, out);
    for (uint32_t at = 0; at < prefix; at++)
        assert_int_equal(out[at], byte_at(at));
}

/// Stores up to PIECES random pieces of a stream, until a piece is refused or has a wrong byte.
/// Checks each result. Returns true if the bytes of a piece conflicted with stored bytes.
/// - reach: limit of the pieces' offsets.
static bool play(struct random *random, struct connection_pool *pool, uint32_t reach) {
    static bool there[STREAM_BYTES_MAX];
    static uint8_t bytes[STREAM_BYTES_MAX];
    struct stream stream = stream_make(0);
    bool is_over = false;

    memset(there, 0, sizeof there);
    for (uint32_t piece = 0; piece < PIECES; piece++) {
        const uint32_t start = random_below(random, reach);
        const uint32_t wanted = 1 + random_below(random, reach / 4);
        const uint32_t length =
            wanted < STREAM_BYTES_MAX - start ? wanted : STREAM_BYTES_MAX - start;
        const uint32_t spoiled = random_below(random, length);
        const bool is_other = random_below(random, 40) == 0;
        enum stream_put put;

        for (uint32_t i = 0; i < length; i++)
            bytes[i] = byte_at(start + i);
        if (is_other)
            bytes[spoiled] ^= 1;
        put = stream_insert(&stream, pool, start, bytes, length);
        assert_int_equal(put == STREAM_CONFLICT, is_other && there[start + spoiled]);
        is_over = put == STREAM_CONFLICT;
        if (is_over || is_other)
            break;
        memset(there + start, true, length);
        assert_int_equal(put == STREAM_GAPS, runs(there) > CONNECTION_SPANS_MAX);
        if (put != STREAM_KEPT)
            break;
        check_prefix(&stream, pool, there);
    }
    stream_release(&stream, pool);
    return is_over;
}

static void pieces_in_any_order_are_put_together(void **state) {
    static const uint32_t reaches[] = {40, 3000, STREAM_BYTES_MAX};
    struct random random = {7};
    struct connection_pool pool;
    int conflicts = 0;

    (void)state;
    assert_int_equal(connection_pool_make(&pool, 16 * CONNECTION_BLOCK_BYTES), 0);
    for (uint32_t round = 0; round < ROUNDS; round++)
        conflicts += play(&random, &pool, reaches[round % 3]);
    connection_pool_free(&pool);
    assert_true(conflicts > ROUNDS / 20);
}

static void an_empty_pool_is_told_and_blocks_come_back(void **state) {
    static const uint8_t bytes[3 * CONNECTION_BLOCK_BYTES];
    const uint32_t two = 2 * CONNECTION_BLOCK_BYTES;
    struct stream stream = stream_make(0);
    struct connection_pool pool;

    (void)state;
    assert_int_equal(connection_pool_make(&pool, two), 0);
    assert_int_equal(stream_insert(&stream, &pool, 0, bytes, sizeof bytes), STREAM_POOL);
    stream_release(&stream, &pool);
    stream = stream_make(0);
    assert_int_equal(stream_insert(&stream, &pool, 0, bytes, two), STREAM_KEPT);
    assert_int_equal(stream_prefix(&stream), two);
    connection_pool_free(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_any_order_are_put_together),
        cmocka_unit_test(an_empty_pool_is_told_and_blocks_come_back),
    };

    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
