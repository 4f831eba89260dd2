// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the messages that add elements to the kernel's sets: their bytes, and the kernel's
// answers.
#include "worker/elements.h"

#include <errno.h>
#include <string.h>

#include "names/answer.h"
#include "test.h"

enum {
    NESTED = 0x8000,
    MINUTE = 60000, // milliseconds of a minute
};

static const uint8_t ipv4[] = {10, 0, 0, 1};
static const uint8_t ipv6[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t timeout[] = {0, 0, 0, 0, 0, 0, 0xea, 0x60};

/// Expected bytes of messages, or of a part of a message.
struct expected {
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    size_t length;
};

static void add(struct expected *to, const void *bytes, size_t count) {
    memcpy(to->bytes + to->length, bytes, count);
    to->length += count;
}

static void add16(struct expected *to, uint16_t number) { add(to, &number, sizeof number); }

/// Adds a message with a type, flags, a family, the low byte of res_id (the last byte of the
/// headers) and attributes.
static void add_message(struct expected *to, uint16_t kind, uint16_t flags, uint8_t family,
                        uint8_t res_id, const struct expected *attributes) {
    const uint32_t length = (uint32_t)(20 + attributes->length);
    const uint8_t tail[] = {0, 0, 0, 0, 0, 0, 0, 0, family, 0, 0, res_id};

    add(to, &length, sizeof length);
    add16(to, kind);
    add16(to, flags);
    add(to, tail, sizeof tail);
    add(to, attributes->bytes, attributes->length);
}

static void add_attribute(struct expected *to, uint16_t kind, const void *value, size_t count) {
    static const uint8_t padding[4];

    add16(to, (uint16_t)(4 + count));
    add16(to, kind);
    add(to, value, count);
    add(to, padding, (4 - count % 4) % 4);
}

/// Adds an element: an address, and more attributes.
static void add_element(struct expected *to, const uint8_t *address, size_t count,
                        const struct expected *more) {
    struct expected value = {0}, key = {0};

    add_attribute(&value, 1, address, count);
    add_attribute(&key, 1 | NESTED, value.bytes, value.length);
    add(&key, more->bytes, more->length);
    add_attribute(to, 1 | NESTED, key.bytes, key.length);
}

/// Adds a message about elements of set "set" in table "f".
/// - addresses: `count` addresses of `size` bytes.
/// - more: further attributes of each element.
static void add_elements(struct expected *to, uint16_t kind, uint16_t flags, uint8_t family,
                         const uint8_t *addresses, size_t size, int count,
                         const struct expected *more) {
    struct expected inner = {0}, all = {0};

    for (int i = 0; i < count; i++)
        add_element(&inner, addresses + (size_t)i * size, size, more);
    add_attribute(&all, 1, "f", 2);
    add_attribute(&all, 2, "set", 4);
    add_attribute(&all, 3 | NESTED, inner.bytes, inner.length);
    add_message(to, kind, flags, family, 0, &all);
}

/// Returns the expected batch that adds addresses to a set of a family's table.
static struct expected batch(uint8_t family, const uint8_t *addresses, size_t size, int count) {
    const struct expected none = {0};
    struct expected timed = {0}, to = {0};

    add_attribute(&timed, 4, timeout, sizeof timeout);
    add_message(&to, 16, 1, 0, 10, &none);
    add_elements(&to, 0x0a0c, 0x401, family, addresses, size, count, &none);
    add_elements(&to, 0x0a0e, 1, family, addresses, size, count, &none);
    add_elements(&to, 0x0a0c, 0x605, family, addresses, size, count, &timed);
    add_message(&to, 17, 1, 0, 10, &none);
    return to;
}

static struct compile_kernel_set set(enum policy_family family, bool is_ipv6) {
    return (struct compile_kernel_set){family, is_ipv6, "f", "set"};
}

static void a_batch_adds_elements_that_may_be_there(void **state) {
    static const uint8_t two[] = {10, 0, 0, 1, 10, 0, 0, 2};
    static const policy_value numbers[] = {0x0a000001, 0x0a000002};
    const struct compile_kernel_set inet = set(POLICY_INET, false), ip6 = set(POLICY_IP6, true),
                                    ip = set(POLICY_IP, false);
    struct expected expected = batch(1, two, sizeof ipv4, 2);
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    policy_value address = 0;

    (void)state;
    assert_int_equal(elements_build(&inet, numbers, 2, MINUTE, bytes), expected.length);
    assert_memory_equal(bytes, expected.bytes, expected.length);
    for (size_t i = 0; i < sizeof ipv6; i++)
        address = address << 8 | ipv6[i];
    expected = batch(10, ipv6, sizeof ipv6, 1);
    assert_int_equal(elements_build(&ip6, &address, 1, MINUTE, bytes), expected.length);
    assert_memory_equal(bytes, expected.bytes, expected.length);
    elements_build(&ip, numbers, 1, MINUTE, bytes);
    assert_int_equal(bytes[20 + 16], 2); // family of the table
}

static void the_largest_answer_fits(void **state) {
    static const policy_value addresses[NAMES_ANSWER_ADDRESSES_MAX];
    struct compile_kernel_set to = set(POLICY_INET, true);
    const struct expected none = {0};
    struct expected expected = {0};
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    size_t length;

    (void)state;
    memset(to.table, 't', sizeof to.table - 1);
    memset(to.name, 's', sizeof to.name - 1);
    add_message(&expected, 17, 1, 0, 10, &none);
    length = elements_build(&to, addresses, NAMES_ANSWER_ADDRESSES_MAX, MINUTE, bytes);
    assert_memory_equal(bytes + length - expected.length, expected.bytes, expected.length);
}

/// Returns the remaining time that elements_left_of reads from a message about an element.
/// - more: attributes of the element after its address.
static uint64_t left(const struct expected *more) {
    struct expected message = {0};

    add_elements(&message, 0x0a0c, 0, 1, ipv4, sizeof ipv4, 1, more);
    return elements_left_of(message.bytes, message.length);
}

static void the_remaining_time_of_an_element(void **state) {
    static const uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[24];
    const struct expected none = {0};
    const int missing = -ENOENT;
    const uint16_t kind = 2;
    struct expected times = {0}, cut = {0};
    uint8_t message[20] = {0};

    (void)state;
    add_attribute(&times, 4, ones, sizeof ones);
    add_attribute(&times, 5, timeout, sizeof timeout);
    assert_int_equal(left(&times), MINUTE);
    assert_true(left(&none) == UINT64_MAX); // the element does not expire
    add_attribute(&cut, 5, timeout, sizeof timeout - 1);
    assert_int_equal(left(&cut), 0);
    memcpy(message + 4, &kind, sizeof kind);
    memcpy(message + 16, &missing, sizeof missing);
    assert_int_equal(elements_left_of(message, sizeof message), 0);
    assert_int_equal(elements_left_of(zeros, 19), 0);
    assert_int_equal(elements_left_of(zeros, 24), 0); // an attribute without a length
}

static void what_stays_long_enough_needs_no_transaction(void **state) {
    (void)state;
    assert_int_equal(elements_timeout_of(MINUTE), 66000);
    assert_int_equal(elements_timeout_of(86400000), 86460000);
}

/// Requests twice the allowed number of transactions per second, all at the time now_ns. Returns
/// the number of transactions that were allowed.
static int in_time(uint64_t *batches, uint64_t now_ns) {
    int count = 0;

    for (int i = 0; i < 2 * ELEMENTS_BATCHES_MAX; i++)
        count += elements_is_in_time(batches, now_ns);
    return count;
}

static void transactions_in_a_second_are_limited(void **state) {
    uint64_t batches = 0;

    (void)state;
    assert_int_equal(in_time(&batches, 5000000000), ELEMENTS_BATCHES_MAX);
    assert_int_equal(in_time(&batches, 5999999999), 0);
    assert_int_equal(in_time(&batches, 6000000000), ELEMENTS_BATCHES_MAX);
    assert_int_equal(in_time(&batches, 5999999999), 0); // the clock of another worker
}

static int result(uint16_t kind, int error) {
    uint8_t message[20] = {0};

    memcpy(message + 4, &kind, sizeof kind);
    memcpy(message + 16, &error, sizeof error);
    return elements_result_of(message, sizeof message);
}

static void results_of_the_kernel(void **state) {
    static const uint8_t cut[19];

    (void)state;
    assert_int_equal(result(2, 0), 0);
    assert_int_equal(result(2, -EEXIST), -EEXIST);
    assert_int_equal(result(3, 0), -EPROTO);
    assert_int_equal(elements_result_of(cut, sizeof cut), -EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_adds_elements_that_may_be_there),
        cmocka_unit_test(the_largest_answer_fits),
        cmocka_unit_test(the_remaining_time_of_an_element),
        cmocka_unit_test(what_stays_long_enough_needs_no_transaction),
        cmocka_unit_test(transactions_in_a_second_are_limited),
        cmocka_unit_test(results_of_the_kernel),
    };

    return cmocka_run_group_tests_name("elements", tests, NULL, NULL);
}
