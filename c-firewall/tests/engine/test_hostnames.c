// SPDX-License-Identifier: GPL-2.0-or-later
// Tests the search for a client's names among a policy's names, and decisions by them.
#include "engine/hostnames.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "engine/decide.h"
#include "lines.h"
#include "policy/forest.h"
#include "random.h"
#include "test.h"
#include "vectors.h"

enum {
    ROUNDS = 200,
    PATTERNS_MAX = 12,
    TEXT_BYTES = 64,
    POLICY_BYTES = 8192,
    RULES = 20,   // number of random rules of a chain
    PACKETS = 50, // number of packets that a random policy decides
    HOSTS = 30,   // number of host names in random rules
    WORDS = 8,    // maximum number of words of a packet in the vectors
};

/// IPv4 packet with a TCP segment from port 40000 to port 443.
static const uint8_t packet_bytes[40] = {
    0x45, 0,    0, 40,   0, 0, 0x40, 0, 64, 6, 0, 0, 10,   0,    0,    1,    10, 0, 0, 2,
    0x9c, 0x40, 1, 0xbb, 0, 0, 0,    0, 0,  0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0,  0, 0, 0};

static const struct decide_settings settings = {.default_verdict = VERDICT_DROP,
                                                .undecided_verdict = VERDICT_ACCEPT};

/// Returns a pattern without its prefix `*.`.
/// - wildcard: out: true if the pattern has the prefix.
static const char *split(const char *pattern, bool *wildcard) {
    *wildcard = strncmp(pattern, "*.", 2) == 0;
    return *wildcard ? pattern + 2 : pattern;
}

static uint32_t add(struct hostnames *all, const char *pattern) {
    bool wildcard;
    const char *name = split(pattern, &wildcard);
    uint32_t id;

    assert_int_equal(hostname_add(all, (const uint8_t *)name, strlen(name), wildcard, &id), 0);
    return id;
}

/// Returns true if the search for a name finds the expected pattern; "-" = no pattern.
static bool is_found(const struct host_numbers *numbers, const char *name, const char *expected) {
    const uint32_t number = hostnames_find(numbers, (const uint8_t *)name, strlen(name));
    bool wildcard;
    const char *rest = split(expected, &wildcard);
    uint32_t id;

    if (strcmp(expected, "-") == 0)
        return number == 0;
    id = hostname_find(numbers->hostnames, (const uint8_t *)rest, strlen(rest), wildcard);
    assert_int_not_equal(id, HOSTNAME_NONE);
    return hostnames_interval(numbers, id).low == number;
}

/// Creates the search table of some patterns, which are separated by blanks.
static void make(struct host_numbers *numbers, char *patterns) {
    struct hostnames *all = hostname_make();

    for (char *pattern = strtok(patterns, " "); pattern; pattern = strtok(NULL, " "))
        add(all, pattern);
    assert_int_equal(forest_make(all), 0);
    hostnames_make(numbers, all);
    hostname_free(all);
}

static void names_are_found_as_in_the_vectors(void **state) {
    FILE *file = vectors_open("hostnames.txt");
    struct host_numbers numbers = {0};
    char line[LINE_BYTES];
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        if (strncmp(line, "patterns ", strlen("patterns ")) == 0) {
            hostnames_free(&numbers);
            make(&numbers, line + strlen("patterns "));
        } else if (strncmp(line, "find ", strlen("find ")) == 0) {
            char *name = line + strlen("find "), *equals = strstr(name, " = ");

            assert_non_null(equals);
            *equals = '\0';
            if (!is_found(&numbers, name, equals + 3))
                fail_msg("%s is not %s", name, equals + 3);
            count++;
        }
    }
    fclose(file);
    hostnames_free(&numbers);
    assert_true(count >= 20);
}

static void random_name(struct random *random, char name[static TEXT_BYTES]) {
    static const char *const labels[] = {"a", "b", "c", "dd"};
    const uint32_t count = random_below(random, 4);

    strcpy(name, labels[random_below(random, 4)]);
    for (uint32_t i = 0; i < count; i++) {
        strcat(name, ".");
        strcat(name, labels[random_below(random, 4)]);
    }
}

/// Returns true if a pattern matches a name.
static bool covers(const char *pattern, const char *name) {
    bool wildcard;
    const char *rest = split(pattern, &wildcard);
    const size_t length = strlen(name), own = strlen(rest);

    if (!wildcard)
        return strcmp(rest, name) == 0;
    return length > own && name[length - own - 1] == '.' && strcmp(name + length - own, rest) == 0;
}

/// Returns the pattern that must be found for a name: the name itself, otherwise the longest
/// pattern that matches it; "-" = none.
static const char *best(char patterns[][TEXT_BYTES], uint32_t count, const char *name) {
    const char *found = "-";

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(patterns[i], name) == 0)
            return patterns[i];
        if (covers(patterns[i], name) && strlen(patterns[i]) > strlen(found))
            found = patterns[i];
    }
    return found;
}

static void check_random(struct random *random, char patterns[][TEXT_BYTES], uint32_t count,
                         const struct host_numbers *numbers) {
    char name[TEXT_BYTES];
    uint32_t number;

    random_name(random, name);
    assert_true(is_found(numbers, name, best(patterns, count, name)));
    number = hostnames_find(numbers, (const uint8_t *)name, strlen(name));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = add(numbers->hostnames, patterns[i]);
        const struct policy_range interval = hostnames_interval(numbers, id);

        assert_int_equal(interval.low <= number && number <= interval.high,
                         covers(patterns[i], name));
    }
}

static void random_names_are_found_as_one_by_one(void **state) {
    struct random random = {7};

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t count = random_below(&random, PATTERNS_MAX);
        struct hostnames *all = hostname_make();
        char patterns[PATTERNS_MAX][TEXT_BYTES];
        struct host_numbers numbers;

        for (uint32_t i = 0; i < count; i++) {
            const bool wildcard = random_below(&random, 2);

            strcpy(patterns[i], wildcard ? "*." : "");
            random_name(&random, patterns[i] + (wildcard ? 2 : 0));
            add(all, patterns[i]);
        }
        assert_int_equal(forest_make(all), 0);
        hostnames_make(&numbers, all);
        for (int i = 0; i < 40; i++)
            check_random(&random, patterns, count, &numbers);
        hostnames_free(&numbers);
        hostname_free(all);
    }
}

/// Writes a name with count labels of one byte each.
static void put_labels(uint32_t count, char *text) {
    for (uint32_t i = 0; i < count; i++)
        memcpy(&text[2 * i], "a.", 2);
    text[2 * count - 1] = '\0';
}

static void names_have_as_many_labels_as_fit(void **state) {
    char longest[NAMES_HOST_BYTES + 2], above[NAMES_HOST_BYTES + 2] = "*.";
    char dots[NAMES_HOST_BYTES + 1] = "";
    struct hostnames *all = hostname_make();
    struct host_numbers numbers;

    (void)state;
    put_labels(127, longest);
    put_labels(126, above + 2);
    add(all, above);
    add(all, "*.a");
    assert_int_equal(forest_make(all), 0);
    hostnames_make(&numbers, all);
    assert_true(is_found(&numbers, longest, above));
    assert_true(is_found(&numbers, above + 2, "*.a"));
    // These texts are no valid names, but can be searched.
    memset(dots, '.', NAMES_HOST_BYTES);
    assert_true(is_found(&numbers, dots, "-"));
    dots[NAMES_HOST_BYTES - 1] = 'a';
    assert_true(is_found(&numbers, dots, "*.a"));
    hostnames_free(&numbers);
    hostname_free(all);
}

static void what_lies_inside_is_kept(void **state) {
    static const struct lookup_range all[] = {
        {1, 10, 1}, {2, 5, 2}, {3, 3, 3}, {7, 7, 1}, {12, 12, 4}};
    static const struct lookup_range expected[] = {{1, 1, 1}, {2, 2, 2},  {3, 3, 3},
                                                   {4, 5, 2}, {6, 10, 1}, {12, 12, 4}};
    struct lookup_range *ranges = malloc(sizeof all);
    uint32_t count = sizeof all / sizeof *all;

    (void)state;
    memcpy(ranges, all, sizeof all);
    assert_int_equal(hostnames_part(&ranges, &count), 0);
    assert_int_equal(count, sizeof expected / sizeof *expected);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(ranges[i].low == expected[i].low && ranges[i].high == expected[i].high);
        assert_int_equal(ranges[i].value, expected[i].value);
    }
    free(ranges);
}

static uint8_t one_of(const char *word, const char *const *words) {
    for (uint8_t i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    fail_msg("not understood: %s", word);
    return 0;
}

/// Writes the protocols of a list, each with its length before it. Returns the number of bytes.
static uint8_t put_protocols(uint8_t *alpn, const char *list) {
    uint8_t *at = alpn;

    while (*list) {
        const size_t length = strcspn(list, ",");

        *at++ = (uint8_t)length;
        memcpy(at, list, length);
        at += length;
        list += length + (list[length] == ',');
    }
    return (uint8_t)(at - alpn);
}

/// Returns a client's names from the words of a test vector.
static struct names names_of(char *line) {
    static const char *const states[] = {"none", "undecided", "known", "unreadable", NULL};
    static const char *const protocols[] = {"other", "tls", "quic", "http", "dns", NULL};
    const char *words[WORDS] = {0};
    struct names names = {0};
    char *rest = NULL;

    for (int i = 0; i < WORDS; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &rest);
        assert_non_null(words[i]);
        if (strcmp(words[i], "-") == 0)
            words[i] = "";
    }
    names.state = (enum names_state)one_of(words[0], states);
    names.protocol = (enum names_protocol)one_of(words[1], protocols);
    names.host_length = (uint8_t)strlen(words[2]);
    memcpy(names.host, words[2], names.host_length);
    names.alpn_length = put_protocols(names.alpn, words[3]);
    names.version = (uint16_t)strtoul(words[4], NULL, 16);
    names.ech = strcmp(words[5], "ech") == 0;
    names.method_length = (uint8_t)strlen(words[6]);
    memcpy(names.method, words[6], names.method_length);
    names.dns_type = (uint16_t)strtoul(words[7], NULL, 10);
    return names;
}

static struct decide_outcome ask(struct engine *engine, const struct names *names,
                                 const struct decide_settings *by, size_t captured) {
    struct decide_outcome outcome;
    struct decide_input input;
    struct packet packet;
    const enum packet_status status =
        packet_parse(packet_bytes, captured, sizeof packet_bytes, &packet);

    input = engine_input(&packet, status);
    input.names = names;
    hostnames_resolve(&engine->compiled->hosts, names, &input.host_number, &input.alpn_bits);
    decide_packet(by, engine->compiled, &engine->flow, &engine->counters, &input, &outcome);
    return outcome;
}

static void describe(const struct decide_outcome *outcome, char text[static TEXT_BYTES]) {
    static const char *const names[] = {
        [DECIDE_BY_RULE] = "rule",           [DECIDE_BY_POLICY] = "policy",
        [DECIDE_BY_DEFAULT] = "default",     [DECIDE_BY_FAIL] = "fail",
        [DECIDE_BY_UNDECIDED] = "undecided",
    };

    snprintf(text, TEXT_BYTES, "%s %s%s", verdict_name(outcome->verdict), names[outcome->by],
             outcome->read_names ? " read" : "");
}

/// Writes a policy with some rules.
/// - rules: rules, with the two characters \n in place of line ends.
static void policy_text(const char *rules, char text[static POLICY_BYTES]) {
    char *at = text + sprintf(text, "table inet t {\nchain c {\n"
                                    "type filter hook input priority 0; policy drop;\n");

    for (; *rules; rules++) {
        const bool is_end = rules[0] == '\\' && rules[1] == 'n';

        *at++ = is_end ? '\n' : *rules;
        rules += is_end;
    }
    strcpy(at, "\n}\n}\n");
}

static void packets_are_decided_as_in_the_vectors(void **state) {
    FILE *file = vectors_open("names-decide.txt");
    char line[LINE_BYTES], text[POLICY_BYTES], said[TEXT_BYTES];
    struct engine engines[2];
    bool has_engines = false;
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        if (strncmp(line, "policy ", strlen("policy ")) == 0) {
            policy_text(line + strlen("policy "), text);
            for (int i = 0; i < 2; i++) {
                if (has_engines)
                    engine_free(&engines[i]);
                engines[i] = engine_make(text, i == 0);
            }
            has_engines = true;
        } else if (*line) {
            char *equals = strstr(line, " = ");
            struct names names;

            assert_non_null(equals);
            *equals = '\0';
            names = names_of(line);
            for (int i = 0; i < 2; i++) {
                const struct decide_outcome outcome =
                    ask(&engines[i], &names, &settings, sizeof packet_bytes);

                describe(&outcome, said);
                if (strcmp(said, equals + 3) != 0)
                    fail_msg("%s, not %s\n%s", said, equals + 3, text);
            }
            count++;
        }
    }
    fclose(file);
    engine_free(&engines[0]);
    engine_free(&engines[1]);
    assert_true(count >= 120);
}

/// Appends random rules, most of which begin like another rule and test one field of names, so that
/// an index finds them. Returns the end of the text.
/// - target: verdict of some rules.
static char *put_random_rules(struct random *random, const char *target, char *text) {
    static const char *const all[] = {
        "",
        "tcp dport 443 ",
        "tcp dport 80 ",
        "tcp dport { 80, 443 } ",
        "meta mark 1 ",
        "ip daddr != 10.0.0.3 ",
        "counter ",
    };
    static const char *const fields[] = {"tls sni", "http host", "dns name"};
    const char *ends[] = {"accept",
                          "drop",
                          "reject",
                          "meta mark set 1",
                          target,
                          "counter",
                          "tcp sport 40000 limit rate over 1/day burst 1 packets drop"};
    const uint32_t count = sizeof all / sizeof *all;
    const char *begins[2] = {all[random_below(random, count)], all[random_below(random, count)]};
    const char *field = fields[random_below(random, 3)];

    for (int i = 0; i < RULES; i++) {
        const uint32_t number = random_below(random, HOSTS);
        const uint32_t name = random_below(random, 16), behind = random_below(random, 4);

        text += sprintf(text, "%s", begins[random_below(random, 2)]);
        if (name == 0)
            text += sprintf(text, "tls sni exists ");
        else if (name == 1)
            text += sprintf(text, "dns name missing ");
        else if (name == 2)
            text += sprintf(text, "tcp dport %u ", number);
        else
            text += sprintf(text, "%s \"a%u.example\" ", field, number);
        if (behind == 0)
            text += sprintf(text, "tcp dport %u ", number);
        else if (behind == 1)
            text += sprintf(text, "ip saddr 10.0.0.%u ", number);
        text += sprintf(text, "%s\n", ends[random_below(random, sizeof ends / sizeof *ends)]);
    }
    return text;
}

static struct names random_names(struct random *random) {
    static const char *const states[] = {"known",     "known",      "known",
                                         "undecided", "unreadable", "none"};
    static const char *const protocols[] = {"tls", "quic", "http", "dns", "other"};
    const char *state = states[random_below(random, sizeof states / sizeof *states)];
    const char *protocol = protocols[random_below(random, sizeof protocols / sizeof *protocols)];
    char host[TEXT_BYTES] = "-", line[2 * TEXT_BYTES];

    if (random_below(random, 4) > 0)
        snprintf(host, sizeof host, "a%u.example", random_below(random, 2 * HOSTS));
    snprintf(line, sizeof line, "%s %s %s - - - - 1", state, protocol, host);
    return names_of(line);
}

static void assert_same(const struct decide_outcome *a, const struct decide_outcome *b,
                        const char *text) {
    const bool is_same = a->verdict == b->verdict && a->by == b->by && a->rule == b->rule &&
                         a->chain == b->chain && a->mark_set == b->mark_set && a->mark == b->mark &&
                         a->undecidable == b->undecidable && a->undecided == b->undecided &&
                         a->read_names == b->read_names;

    if (!is_same)
        fail_msg("%s", text);
}

static void an_index_by_names_changes_no_outcome(void **state) {
    struct random random = {3};
    uint32_t found_by_names = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        char rules[POLICY_BYTES], text[POLICY_BYTES], *at;
        struct engine linear, indexed;

        at = put_random_rules(&random, "jump x", rules);
        at += sprintf(at, "}\nchain x {\n");
        put_random_rules(&random, "return", at);
        policy_text(rules, text);
        linear = engine_make(text, true);
        indexed = engine_make(text, false);
        for (uint32_t j = 0; j < indexed.compiled->index_count; j++)
            found_by_names += indexed.compiled->indexes[j].field >= POLICY_TLS_SNI;
        for (int j = 0; j < PACKETS; j++) {
            const struct names names = random_names(&random);
            const size_t captured = random_below(&random, 4) == 0 ? 20 : sizeof packet_bytes;
            const struct decide_outcome one = ask(&linear, &names, &settings, captured);
            const struct decide_outcome other = ask(&indexed, &names, &settings, captured);

            assert_same(&one, &other, text);
        }
        engine_free(&linear);
        engine_free(&indexed);
    }
    assert_true(found_by_names > ROUNDS / 4);
}

static void the_stricter_holds_if_bytes_are_missing_too(void **state) {
    static const struct {
        enum names_state state;
        bool truncated_open;
        enum verdict undecided_verdict;
        bool unknown_open;
        const char *expected;
    } rows[] = {
        {NAMES_UNDECIDED, true, VERDICT_ACCEPT, false, "accept undecided"},
        {NAMES_UNDECIDED, true, VERDICT_DROP, true, "drop undecided"},
        {NAMES_UNDECIDED, false, VERDICT_ACCEPT, true, "drop fail"},
        {NAMES_UNREADABLE, true, VERDICT_DROP, true, "accept fail"},
        {NAMES_UNREADABLE, true, VERDICT_ACCEPT, false, "drop fail"},
        {NAMES_UNREADABLE, false, VERDICT_ACCEPT, true, "drop fail"},
        {NAMES_KNOWN, true, VERDICT_DROP, false, "accept fail"},
    };
    char text[POLICY_BYTES], said[TEXT_BYTES];
    struct engine engine;

    (void)state;
    policy_text("tls sni . tcp dport { \"a.example\" . 443 } drop\naccept", text);
    engine = engine_make(text, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct decide_settings by = {
            .default_verdict = VERDICT_DROP,
            .truncated_open = rows[i].truncated_open,
            .undecided_verdict = rows[i].undecided_verdict,
            .unknown_open = rows[i].unknown_open,
        };
        const struct names names = {
            .state = rows[i].state, .protocol = NAMES_TLS, .host_length = 1};
        struct decide_outcome outcome = ask(&engine, &names, &by, 20);

        assert_true(outcome.undecidable);
        assert_int_equal(outcome.undecided, rows[i].state != NAMES_KNOWN);
        outcome.read_names = false;
        describe(&outcome, said);
        assert_string_equal(said, rows[i].expected);
    }
    engine_free(&engine);
}

static void put_protocol_rules(uint32_t count, char text[static POLICY_BYTES]) {
    char rules[POLICY_BYTES] = "";

    for (uint32_t i = 0; i < count; i++)
        sprintf(rules + strlen(rules), "tls alpn \"p%u\" accept\n", i);
    policy_text(rules, text);
}

static void thirty_two_protocols_are_the_most(void **state) {
    char text[POLICY_BYTES], said[TEXT_BYTES], line[] = "known tls - p31 - - - -";
    const struct names names = names_of(line);
    struct decide_outcome outcome;
    struct failure failure;
    struct engine engine;

    (void)state;
    put_protocol_rules(32, text);
    engine = engine_make(text, false);
    outcome = ask(&engine, &names, &settings, sizeof packet_bytes);
    describe(&outcome, said);
    assert_string_equal(said, "accept rule read");
    engine_free(&engine);
    put_protocol_rules(33, text);
    assert_true(engine_compile(&engine, text, false, false, &failure) < 0);
    assert_string_equal(failure.text,
                        "policy.nft:36:1: \"p32\": more than 32 protocols of tls alpn in a policy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_as_in_the_vectors),
        cmocka_unit_test(random_names_are_found_as_one_by_one),
        cmocka_unit_test(names_have_as_many_labels_as_fit),
        cmocka_unit_test(what_lies_inside_is_kept),
        cmocka_unit_test(packets_are_decided_as_in_the_vectors),
        cmocka_unit_test(an_index_by_names_changes_no_outcome),
        cmocka_unit_test(the_stricter_holds_if_bytes_are_missing_too),
        cmocka_unit_test(thirty_two_protocols_are_the_most),
    };

    return cmocka_run_group_tests_name("hostnames", tests, NULL, NULL);
}
