// SPDX-License-Identifier: GPL-2.0-or-later
// Messages that add elements to sets of the kernel: their bytes, and the kernel's results.
#include "worker/elements.h"

#include <errno.h>
#include <string.h>

#include "test.h"

enum {
    NESTED = 0x8000,
    MINUTE = 60000, // in milliseconds
};

static const uint8_t ipv4[] = {10, 0, 0, 1};
static const uint8_t ipv6[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t timeout[] = {0, 0, 0, 0, 0, 0, 0xea, 0x60};

/// Bytes that are expected.
struct expected {
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    size_t length;
};

static void add(struct expected *to, const void *bytes, size_t count) {
    memcpy(to->bytes + to->length, bytes, count);
    to->length += count;
}

static void add16(struct expected *to, uint16_t number) { add(to, &number, sizeof number); }

/// Adds a message: type, flags, family, the last byte of its header, attributes.
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

/// Attributes of a message about an element.
static struct expected element(const uint8_t *address, size_t count, bool has_timeout) {
    struct expected value = {0}, key = {0}, inner = {0}, all = {0};

    add_attribute(&value, 1, address, count);
    add_attribute(&key, 1 | NESTED, value.bytes, value.length);
    if (has_timeout)
        add_attribute(&key, 4, timeout, sizeof timeout);
    add_attribute(&inner, 1 | NESTED, key.bytes, key.length);
    add_attribute(&all, 1, "f", 2);
    add_attribute(&all, 2, "set", 4);
    add_attribute(&all, 3 | NESTED, inner.bytes, inner.length);
    return all;
}

static struct compile_kernel_set set(enum policy_family family, bool is_ipv6) {
    return (struct compile_kernel_set){family, is_ipv6, "f", "set"};
}

static void a_batch_adds_an_element(void **state) {
    const struct compile_kernel_set to = set(POLICY_INET, false);
    const struct expected none = {0}, attributes = element(ipv4, sizeof ipv4, true);
    struct expected expected = {0};
    uint8_t bytes[ELEMENTS_BATCH_BYTES];

    (void)state;
    add_message(&expected, 16, 1, 0, 10, &none);
    add_message(&expected, 0x0a0c, 0x605, 1, 0, &attributes);
    add_message(&expected, 17, 1, 0, 10, &none);
    assert_int_equal(elements_build(&to, 0x0a000001, MINUTE, false, bytes), expected.length);
    assert_memory_equal(bytes, expected.bytes, expected.length);
}

static void an_element_is_replaced_in_one_batch(void **state) {
    const struct compile_kernel_set to = set(POLICY_IP6, true), ip = set(POLICY_IP, false);
    const struct expected none = {0}, key = element(ipv6, sizeof ipv6, false),
                          attributes = element(ipv6, sizeof ipv6, true);
    struct expected expected = {0};
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    policy_value address = 0;

    (void)state;
    for (size_t i = 0; i < sizeof ipv6; i++)
        address = address << 8 | ipv6[i];
    add_message(&expected, 16, 1, 0, 10, &none);
    add_message(&expected, 0x0a0e, 1, 10, 0, &key);
    add_message(&expected, 0x0a0c, 0x605, 10, 0, &attributes);
    add_message(&expected, 17, 1, 0, 10, &none);
    assert_int_equal(elements_build(&to, address, MINUTE, true, bytes), expected.length);
    assert_memory_equal(bytes, expected.bytes, expected.length);
    elements_build(&ip, 1, MINUTE, false, bytes);
    assert_int_equal(bytes[20 + 16], 2); // the family of the table
}

static void the_longest_names_fit(void **state) {
    struct compile_kernel_set to = set(POLICY_INET, true);
    const struct expected none = {0};
    struct expected expected = {0};
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    size_t length;

    (void)state;
    memset(to.table, 't', sizeof to.table - 1);
    memset(to.name, 's', sizeof to.name - 1);
    add_message(&expected, 17, 1, 0, 10, &none);
    length = elements_build(&to, 1, MINUTE, true, bytes);
    assert_memory_equal(bytes + length - expected.length, expected.bytes, expected.length);
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
        cmocka_unit_test(a_batch_adds_an_element),
        cmocka_unit_test(an_element_is_replaced_in_one_batch),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(results_of_the_kernel),
    };

    return cmocka_run_group_tests_name("elements", tests, NULL, NULL);
}
