// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/lexer.h"
#include "policy/value.h"

#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "policy/print.h"
#include "test.h"
#include "vectors.h"

static policy_value number_of(const char *hexadecimal) {
    policy_value value = 0;

    for (; *hexadecimal; hexadecimal++) {
        const char digit[2] = {*hexadecimal, '\0'};

        value = value << 4 | (policy_value)strtoul(digit, NULL, 16);
    }
    return value;
}

static enum policy_type type_of(const char *name) {
    for (int type = 0; type < POLICY_TYPE_COUNT; type++)
        if (strcmp(policy_type_name(type), name) == 0)
            return type;
    fail_msg("no type is named %s", name);
    return 0;
}

/// Returns the output of value_print_range or value_print_mask, which the caller frees.
static char *printed(enum policy_type type, const struct policy_range *range, bool as_mask) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    if (as_mask)
        value_print_mask(out, type, range->low);
    else
        value_print_range(out, type, range);
    fclose(out);
    return text;
}

static void check_print(const char *line, enum policy_type type, const struct policy_range *range,
                        bool as_mask, const char *expected) {
    char *text = printed(type, range, as_mask);

    if (strcmp(text, expected) != 0)
        fail_msg("%s: printed %s", line, text);
    free(text);
}

/// Checks a line `range TYPE LOW HIGH` or `mask TYPE NUMBER` of the vectors: the number must be
/// printed as expected.
static void check_number(const char *line, const char *left, const char *expected) {
    struct policy_range range;
    char type[32], low[40], high[40];

    if (sscanf(left, "range %31s %39s %39s", type, low, high) == 3)
        range = (struct policy_range){number_of(low), number_of(high)};
    else if (sscanf(left, "mask %31s %39s", type, low) == 2)
        range.low = range.high = number_of(low);
    else
        fail_msg("not understood: %s", line);
    check_print(line, type_of(type), &range, *left == 'm', expected);
}

/// Checks a line `TYPE[/BITS] TOKEN` of the vectors: the token must fail with the expected cause,
/// or have the expected number and print.
/// - is_cause: true if the expected result is a cause.
static void check_token(const char *line, const char *left, char *expected, bool is_cause) {
    struct policy_range range;
    struct failure failure;
    struct lexer lexer;
    struct token token;
    enum policy_type type;
    const char *cause;
    char name[32], low[40], high[40];
    unsigned bits = 0;
    int taken = 0;

    sscanf(left, "%31[a-z0-9_]%n/%u%n", name, &taken, &bits, &taken);
    type = type_of(name);
    assert_int_equal(lexer_open_text(&lexer, "t", (const uint8_t *)left + taken + 1,
                                     strlen(left + taken + 1), &failure),
                     0);
    token = lexer_consume(&lexer);
    if (lexer_peek(&lexer, 0)->kind != TOKEN_END_OF_TEXT)
        fail_msg("%s: more than one token", line);
    cause = value_parse(type, bits ? (uint8_t)bits : value_bits(type), &token, &range);
    if ((cause == NULL) == is_cause || (cause && strcmp(cause, expected) != 0))
        fail_msg("%s: %s", line, cause ? cause : "was taken");
    if (!is_cause) {
        taken = 0;
        if (sscanf(expected, "%39[0-9a-f]-%39[0-9a-f]%n", low, high, &taken) < 2) {
            sscanf(expected, "%39[0-9a-f]%n", low, &taken);
            memcpy(high, low, sizeof high);
        }
        if (range.low != number_of(low) || range.high != number_of(high))
            fail_msg("%s: another number", line);
        check_print(line, type, &range, false, expected + taken + 1);
    }
    lexer_close(&lexer);
}

static void values_are_those_of_the_vectors(void **state) {
    FILE *file = vectors_open("values.txt");
    char line[LINE_BYTES], left[LINE_BYTES];
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        char *equals, *refused, *end;

        if (!*line)
            continue;
        memcpy(left, line, sizeof left);
        equals = strstr(left, " = ");
        refused = strstr(left, " ! ");
        end = equals ? equals : refused;
        assert_non_null(end);
        *end = '\0';
        if (strncmp(left, "range ", 6) == 0 || strncmp(left, "mask ", 5) == 0)
            check_number(line, left, end + 3);
        else
            check_token(line, left, end + 3, !equals);
        count++;
    }
    fclose(file);
    assert_in_range(count, 100, 1000);
}

static struct token word(const char *text) {
    return (struct token){.kind = TOKEN_WORD, .length = (uint32_t)strlen(text), .text = text};
}

static void a_prefix_covers_its_addresses(void **state) {
    struct policy_range range;

    (void)state;
    assert_null(value_prefix(POLICY_IPV4_ADDR, 0x0a010203, 8, &range));
    assert_true(range.low == 0x0a000000 && range.high == 0x0affffff);
    assert_null(value_prefix(POLICY_IPV4_ADDR, 0x0a010203, 32, &range));
    assert_true(range.low == 0x0a010203 && range.high == 0x0a010203);
    assert_null(value_prefix(POLICY_IPV4_ADDR, 0x0a010203, 0, &range));
    assert_true(range.low == 0 && range.high == 0xffffffff);
    assert_null(value_prefix(POLICY_IPV6_ADDR, 1, 0, &range));
    assert_true(range.low == 0 && range.high == value_max(128));
    assert_null(value_prefix(POLICY_IPV6_ADDR, 1, 127, &range));
    assert_true(range.low == 0 && range.high == 1);
    assert_string_equal(value_prefix(POLICY_IPV4_ADDR, 0, 33, &range),
                        "a prefix of IPv4 has 0 to 32 bits");
    assert_string_equal(value_prefix(POLICY_IPV6_ADDR, 0, UINT64_MAX, &range),
                        "a prefix of IPv6 has 0 to 128 bits");
}

static void types_of_sets_are_found_by_name(void **state) {
    const struct token service = word("inet_service"), flags = word("tcp_flag");
    struct token text = word("mark");
    enum policy_type type = POLICY_BOOLEAN;

    (void)state;
    assert_true(value_find_type(&service, &type));
    assert_int_equal(type, POLICY_INET_SERVICE);
    assert_false(value_find_type(&flags, &type));
    text.kind = TOKEN_STRING;
    assert_false(value_find_type(&text, &type));
}

static void codes_of_rejects_have_names(void **state) {
    const struct token no_route = word("no-route"), needed = word("frag-needed");
    struct token number = {.kind = TOKEN_NUMBER, .number = 254};
    uint8_t code = 99;

    (void)state;
    assert_null(value_parse_reject(POLICY_REJECT_ICMP, &number, &code));
    assert_int_equal(code, 254);
    number.number = 255;
    assert_non_null(value_parse_reject(POLICY_REJECT_ICMP, &number, &code));
    number.number = 3;
    assert_null(value_parse_reject(POLICY_REJECT_ICMPX, &number, &code));
    number.number = 4;
    assert_non_null(value_parse_reject(POLICY_REJECT_ICMPX, &number, &code));
    assert_null(value_parse_reject(POLICY_REJECT_ICMPX, &no_route, &code));
    assert_int_equal(code, POLICY_ICMPX_NO_ROUTE);
    assert_null(value_parse_reject(POLICY_REJECT_ICMPV6, &no_route, &code));
    assert_int_equal(code, 0);
    assert_string_equal(value_parse_reject(POLICY_REJECT_ICMP, &needed, &code),
                        "not one of net-unreachable host-unreachable prot-unreachable "
                        "port-unreachable net-prohibited host-prohibited admin-prohibited, "
                        "nor a number up to 254");
    assert_string_equal(value_reject_name(POLICY_REJECT_ICMP, 13), "admin-prohibited");
    assert_string_equal(value_reject_name(POLICY_REJECT_ICMPV6, 1), "admin-prohibited");
    assert_string_equal(value_reject_name(POLICY_REJECT_ICMPX, 3), "admin-prohibited");
    assert_null(value_reject_name(POLICY_REJECT_ICMP, 4));
}

static void levels_and_units_have_names(void **state) {
    const struct token debug = word("debug"), loud = word("loud");

    (void)state;
    assert_int_equal(value_find_level(&debug), 7);
    assert_int_equal(value_find_level(&loud), -1);
    assert_string_equal(value_level_name(0), "emerg");
    assert_int_equal(value_find_unit("week", 4), 604800);
    assert_int_equal(value_find_unit("wee", 3), 0);
    assert_string_equal(value_unit_name(86400), "day");
}

static void flags_are_joined_as_asked(void **state) {
    char *text = print_value(POLICY_CT_STATE, 0x46);

    (void)state;
    assert_string_equal(text, "established,related,untracked");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_vectors),
        cmocka_unit_test(a_prefix_covers_its_addresses),
        cmocka_unit_test(types_of_sets_are_found_by_name),
        cmocka_unit_test(codes_of_rejects_have_names),
        cmocka_unit_test(levels_and_units_have_names),
        cmocka_unit_test(flags_are_joined_as_asked),
    };

    return cmocka_run_group_tests_name("value", tests, NULL, NULL);
}
