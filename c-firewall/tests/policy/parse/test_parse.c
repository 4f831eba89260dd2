// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "policy/print.h"
#include "test.h"
#include "vectors.h"

enum {
    TEXT_BYTES = 4096,
    CHAIN = 1, // index in its table of the chain with the rules of the vectors
};

/// Writes the policy text of a vector: the text itself (line `file TEXT`), or a table around the
/// vector's rules (line `FAMILY TEXT`). Returns the text's length in bytes.
static size_t text_of(char *line, char text[static TEXT_BYTES]) {
    char *rest = strchr(line, ' ') + 1;
    const size_t bytes = lines_unescape(rest);
    size_t length = 0;

    if (strncmp(line, "file ", 5) != 0)
        length = (size_t)snprintf(text, TEXT_BYTES, "table %.*s t {\nchain d { }\nchain c {\n",
                                  (int)(rest - line - 1), line);
    assert_true(length + bytes + 8 < TEXT_BYTES);
    memcpy(text + length, rest, bytes);
    length += bytes;
    if (strncmp(line, "file ", 5) != 0)
        length += (size_t)sprintf(text + length, "\n}\n}\n");
    return length;
}

/// Returns the print of a policy, or of the rules of its second chain, in the format of the
/// vectors.
/// - is_file: true for the complete policy, false for the rules.
static char *print_of(const struct policy *policy, bool is_file) {
    const struct policy_table *table = &policy->tables[0];
    char *text = NULL;
    size_t bytes;
    FILE *out;

    if (is_file)
        return print_policy(policy);
    out = open_memstream(&text, &bytes);
    for (uint32_t i = 0; i < table->chains[CHAIN].count; i++) {
        char *rule = print_rule(policy, table, &table->chains[CHAIN].rules[i]);

        fprintf(out, "%s%s", i ? "\n" : "", rule);
        free(rule);
    }
    fclose(out);
    return text;
}

/// Returns true if parsing a text has the result that its vector expects: `= PRINT` or `! MESSAGE`.
/// - is_file: true if PRINT is that of the complete policy, false if it is that of the rules.
static bool check(const char *text, size_t bytes, bool is_file, char *expected) {
    struct policy policy = {0};
    struct failure failure;
    char message[LOG_TEXT_BYTES + 8] = "taken";
    bool good;
    char *print;

    if (parse_text("t.nft", (const uint8_t *)text, bytes, &policy, &failure) != 0) {
        snprintf(message, sizeof message, "! %s", failure.text + strlen("t.nft:"));
        good = strncmp(failure.text, "t.nft:", 6) == 0 && failure.code == LOG_EXIT_USAGE &&
               policy.tables == NULL && strcmp(message, expected) == 0;
        if (!good)
            print_error("%s\n  expected %s\n  got      %s\n", text, expected, message);
        return good;
    }
    print = print_of(&policy, is_file);
    lines_unescape(expected);
    good = strncmp(expected, "= ", 2) == 0 && strcmp(print, expected + 2) == 0;
    if (!good)
        print_error("%s\n  expected %s\n  got      %s\n", text, expected, print);
    free(print);
    policy_free(&policy);
    return good;
}

static void vectors_parse_as_expected(void **state) {
    FILE *file = vectors_open("parse.txt");
    char line[LINE_BYTES], expected[LINE_BYTES], text[TEXT_BYTES];
    int vectors = 0, wrong = 0;

    (void)state;
    while (lines_next(file, line)) {
        const bool is_file = strncmp(line, "file ", 5) == 0;
        char *exact;
        size_t bytes;

        if (!*line)
            continue;
        assert_true(lines_next(file, expected));
        bytes = text_of(line, text);
        text[bytes] = '\0';
        // The block has exactly the text's size, so that a sanitizer detects a read after its end.
        exact = malloc(bytes + 1);
        memcpy(exact, text, bytes + 1);
        wrong += !check(exact, bytes, is_file, expected);
        free(exact);
        vectors++;
    }
    fclose(file);
    assert_int_equal(wrong, 0);
    assert_true(vectors > 500);
}

/// Tests that the print of each policy parses to an equal policy.
static void prints_parse_to_the_same(void **state) {
    FILE *file = vectors_open("parse.txt");
    char line[LINE_BYTES], expected[LINE_BYTES], text[TEXT_BYTES];
    int policies = 0;

    (void)state;
    while (lines_next(file, line)) {
        struct policy policy, again, other = {.flush = true};
        struct failure failure;
        char *print;

        if (!*line || !lines_next(file, expected) || *expected != '=')
            continue;
        assert_int_equal(
            parse_text("t", (const uint8_t *)text, text_of(line, text), &policy, &failure), 0);
        print = print_policy(&policy);
        if (parse_text("p", (const uint8_t *)print, strlen(print), &again, &failure) != 0)
            fail_msg("%s: %s", print, failure.text);
        if (!policy_equal(&policy, &again))
            fail_msg("another policy: %s", print);
        assert_true(policy.table_count == 0 || !policy_equal(&policy, &other));
        free(print);
        policy_free(&policy);
        policy_free(&again);
        policies++;
    }
    fclose(file);
    assert_true(policies > 100);
}

/// Parses a valid text.
static void parse_good(const char *text, struct policy *policy) {
    struct failure failure;

    if (parse_text("t", (const uint8_t *)text, strlen(text), policy, &failure) != 0)
        fail_msg("%s", failure.text);
}

static void names_become_indices(void **state) {
    struct policy policy;
    const struct policy_table *table;
    const struct policy_rule *rules;

    (void)state;
    parse_good("table t { chain a { jump c\nmark @s\nmark vmap @m\nmark vmap { 1 : goto b }\n}\n"
               "chain b { }\nchain c { }\nset r { type mark; }\nset s { type mark; }\n"
               "map m { type mark : verdict; elements = { 1 : accept, 2 : jump b }; }\n}",
               &policy);
    table = &policy.tables[0];
    rules = table->chains[0].rules;
    assert_int_equal(rules[0].statements[0].target->chain_index, 2);
    assert_int_equal(rules[1].statements[0].match->set, 1);
    assert_int_equal(rules[2].statements[0].match->set, 2);
    assert_int_equal(rules[3].statements[0].match->elements.targets[0].chain_index, 1);
    assert_int_equal(table->sets[2].elements.targets[1].chain_index, 1);
    policy_free(&policy);
}

static void places_are_those_of_the_text(void **state) {
    struct policy policy;
    const struct policy_rule *rule;

    (void)state;
    parse_good("table t {\n  chain a {\n\n    counter jump b\n  }\n  chain b { }\n}\n", &policy);
    rule = &policy.tables[0].chains[0].rules[0];
    assert_int_equal(rule->place.line, 4);
    assert_int_equal(rule->place.column, 5);
    assert_int_equal(rule->statements[0].place.column, 5);
    assert_int_equal(rule->statements[1].place.column, 13);
    assert_int_equal(rule->statements[1].target->place.column, 18);
    assert_int_equal(policy.tables[0].chains[1].place.line, 6);
    assert_int_equal(policy.file_count, 1);
    assert_string_equal(policy.files[0], "t");
    policy_free(&policy);
}

static void base_chains_are_counted_as_declared(void **state) {
    struct policy policy;

    (void)state;
    parse_good("table t { chain a { type filter hook input priority 0; }\nchain b { }\n}\n"
               "table u { chain a { type filter hook input priority 0; }\n}\n"
               "table t { chain b { }\nchain c { type filter hook output priority 0; }\n}",
               &policy);
    assert_int_equal(policy.tables[0].chains[0].declared, 0);
    assert_int_equal(policy.tables[1].chains[0].declared, 1);
    assert_int_equal(policy.tables[0].chains[2].declared, 2);
    policy_free(&policy);
}

/// Returns a table of chains, each of which jumps to the next chain.
static char *jumps(uint32_t chains) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    fputs("table t {\n", out);
    for (uint32_t i = 1; i < chains; i++)
        fprintf(out, "chain c%u { jump c%u\n}\n", i, i + 1);
    fprintf(out, "chain c%u { }\n}\n", chains);
    fclose(out);
    return text;
}

static void ways_have_16_chains(void **state) {
    static const struct {
        uint32_t chains;
        const char *message;
    } cases[] = {{16, NULL},
                 {17, "t:2:17: \"c2\": a way of more than 16 chains"},
                 {10000, "t:19968:20: \"c9985\": a way of more than 16 chains"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = jumps(cases[i].chains);
        struct policy policy = {0};
        struct failure failure = {0};

        parse_text("t", (const uint8_t *)text, strlen(text), &policy, &failure);
        assert_string_equal(failure.text, cases[i].message ? cases[i].message : "");
        policy_free(&policy);
        free(text);
    }
}

static void a_file_that_is_not_there_is_told(void **state) {
    struct policy policy = {.flush = true};
    struct failure failure;

    (void)state;
    assert_true(parse_file("/nowhere/a.nft", &policy, &failure) < 0);
    assert_string_equal(failure.text,
                        "/nowhere/a.nft: cannot read the policy: No such file or directory");
    assert_int_equal(failure.code, LOG_EXIT_USAGE);
    assert_true(parse_file("/", &policy, &failure) < 0);
    assert_string_equal(failure.text, "/: cannot read the policy: Is a directory");
    assert_true(policy.flush);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_parse_as_expected),
        cmocka_unit_test(prints_parse_to_the_same),
        cmocka_unit_test(names_become_indices),
        cmocka_unit_test(places_are_those_of_the_text),
        cmocka_unit_test(base_chains_are_counted_as_declared),
        cmocka_unit_test(ways_have_16_chains),
        cmocka_unit_test(a_file_that_is_not_there_is_told),
    };

    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
