// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/policy.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "policy/parse/parse.h"
#include "test.h"
#include "vectors.h"

/// Returns a table with a chain of these rules.
#define CHAIN(rules) "table ip t {\nchain c {\n" rules "\n}\n}\n"

enum {
    POLICIES_MAX = 128, // maximum number of policies in the vectors
};

/// Returns true if two texts parse to equal policies.
static bool equal(const char *a, const char *b) {
    struct policy one = {0}, other = {0};
    struct failure failure;
    bool result;

    if (parse_text("a", (const uint8_t *)a, strlen(a), &one, &failure) != 0 ||
        parse_text("b", (const uint8_t *)b, strlen(b), &other, &failure) != 0)
        fail_msg("%s", failure.text);
    result = policy_equal(&one, &other);
    assert_int_equal(result, policy_equal(&other, &one));
    assert_true(policy_equal(&one, &one));
    policy_free(&one);
    policy_free(&other);
    return result;
}

static void fields_have_their_facts(void **state) {
    const struct policy_field_facts *facts = policy_field_facts(POLICY_ICMPV6_TYPE_FIELD);

    (void)state;
    assert_string_equal(facts->text, "icmpv6 type");
    assert_int_equal(facts->type, POLICY_ICMPV6_TYPE);
    assert_int_equal(facts->bits, 8);
    assert_int_equal(facts->layer3, POLICY_NEEDS_IPV6);
    assert_int_equal(facts->protocol, IPPROTO_ICMPV6);
    assert_string_equal(policy_field_facts(POLICY_META_IIF)->text, "iif");
    assert_int_equal(policy_field_facts(POLICY_IP_DSCP)->bits, 6);
    assert_int_equal(policy_field_facts(POLICY_TH_DPORT)->protocol, 0);
    assert_string_equal(policy_field_facts(POLICY_CT_MARK)->text, "ct mark");
}

static void parts_have_their_names(void **state) {
    (void)state;
    assert_string_equal(policy_family_name(POLICY_INET), "inet");
    assert_string_equal(policy_hook_name(POLICY_POSTROUTING), "postrouting");
    assert_string_equal(policy_type_name(POLICY_IPV4_ADDR), "ipv4_addr");
    assert_string_equal(policy_type_name(POLICY_BOOLEAN), "boolean");
}

static void places_and_spelling_do_not_count(void **state) {
    (void)state;
    assert_true(equal("", "# nothing\n"));
    assert_true(equal(CHAIN("tcp dport 22 accept"), "\n\n" CHAIN("tcp dport ssh  accept # 22")));
    assert_true(equal(CHAIN("ip saddr 10.0.0.0/8"), CHAIN("ip saddr 10.0.0.0-10.255.255.255")));
    assert_true(equal(CHAIN("meta mark set meta mark | 1 & 3"), CHAIN("mark set mark | 1")));
}

/// Reads the policies of different.txt, which all differ from each other; the caller frees them.
/// Returns their number.
static size_t read_different(char *policies[static POLICIES_MAX]) {
    FILE *file = vectors_open("different.txt");
    char line[LINE_BYTES];
    size_t count = 0;

    while (lines_next(file, line)) {
        assert_true(count < POLICIES_MAX);
        lines_unescape(line);
        policies[count++] = strdup(line);
    }
    fclose(file);
    return count;
}

static void whatever_differs_counts(void **state) {
    char *policies[POLICIES_MAX];
    const size_t count = read_different(policies);

    (void)state;
    assert_in_range(count, 70, POLICIES_MAX);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (equal(policies[i], policies[j]) != (i == j))
                fail_msg("%s\nand\n%s", policies[i], policies[j]);
    for (size_t i = 0; i < count; i++)
        free(policies[i]);
}

static void nothing_can_be_freed(void **state) {
    struct policy policy = {0};

    (void)state;
    policy_free(&policy);
    policy_free(&policy);
    policy_free_match(NULL);
    assert_int_equal(policy.table_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_their_facts),
        cmocka_unit_test(parts_have_their_names),
        cmocka_unit_test(places_and_spelling_do_not_count),
        cmocka_unit_test(whatever_differs_counts),
        cmocka_unit_test(nothing_can_be_freed),
    };

    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
