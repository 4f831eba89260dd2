// SPDX-License-Identifier: GPL-2.0-or-later
// Tests decisions about packets: the test vectors that both twins share, and cases that the vectors
// can't express.
#include "engine/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "lines.h"
#include "test.h"
#include "vectors.h"

enum {
    TEXT_BYTES = 8192,
    WORDS_BYTES = 64,
    NOTES_MAX = 64,
};

/// Table before the tested table, so that the tested sets and chains do not have the first numbers.
static const char before[] =
    "table inet before { set first { type ipv4_addr; elements = { 9.9.9.9 }; }; "
    "chain first { accept; }; };";
static const char sets[] =
    "set numbers { type inet_service; elements = { 22, 80 }; }; map names { type "
    "inet_service : verdict; elements = { 80 : jump there }; };";
static const char chains[] = "chain back { return; }\n chain there { drop; }\n "
                             "chain over { jump back; goto back; drop; }\n";

/// Packet of the test vectors in transport.txt.
struct sample {
    struct vector vector;
    struct packet packet;
    enum packet_status status;
};

static void sample_make(struct sample *sample, const char *name) {
    FILE *file = vectors_open("transport.txt");

    sample->vector = (struct vector){0};
    do
        assert_true(vectors_next(file, &sample->vector));
    while (strcmp(sample->vector.name, name) != 0);
    fclose(file);
    sample->status = packet_parse(sample->vector.bytes, (uint32_t)sample->vector.length,
                                  (uint32_t)sample->vector.original, &sample->packet);
}

static struct decide_input sample_input(const struct sample *sample) {
    return engine_input(&sample->packet, sample->status);
}

/// Writes a policy with a base chain of the hook input whose policy is accept.
/// - rules: rules of the base chain, separated by "; ".
static void policy_of(char text[static TEXT_BYTES], const char *family, const char *rules) {
    char *end;

    snprintf(text, TEXT_BYTES,
             "%s table %s t { %s\n %s chain c {\n type filter hook input priority 0; policy "
             "accept;\n %s",
             before, family, sets, chains, rules);
    end = strstr(text, "policy accept;\n");
    while ((end = strstr(end, "; ")))
        memcpy(end, " \n", 2);
    assert_true(strlen(text) + 8 < TEXT_BYTES);
    strcat(text, "\n }\n}\n");
}

static struct engine engine_of(const char *family, const char *rules, bool linear) {
    char text[TEXT_BYTES];

    policy_of(text, family, rules);
    return engine_make(text, linear);
}

static struct decide_outcome ask(struct engine *engine, const struct decide_settings *settings,
                                 const struct decide_input *input) {
    struct decide_outcome outcome;

    decide_packet(settings, engine->compiled, &engine->flow, &engine->counters, input, &outcome);
    return outcome;
}

/// Writes the outcome in the format of decide.txt.
static void describe(const struct engine *engine, const struct decide_outcome *outcome,
                     char text[static WORDS_BYTES]) {
    static const char *const by[] = {"rule", "policy", "default", "fail"};
    int at = snprintf(text, WORDS_BYTES, "%s %s", verdict_name(outcome->verdict), by[outcome->by]);

    if (outcome->by == DECIDE_BY_RULE)
        at += snprintf(text + at, (size_t)(WORDS_BYTES - at), " %u",
                       compile_rule_at(engine->compiled, outcome->rule).rule);
    if (outcome->mark_set)
        snprintf(text + at, (size_t)(WORDS_BYTES - at), " mark %u", outcome->mark);
}

static void assert_outcome(const struct engine *engine, struct decide_outcome outcome,
                           const char *expected) {
    char got[WORDS_BYTES];

    describe(engine, &outcome, got);
    assert_string_equal(got, expected);
}

static void check_vector(char *line, bool linear) {
    static const struct decide_settings settings = {
        .default_verdict = VERDICT_DROP,
        .malformed_by_policy = true,
    };
    char copy[LINE_BYTES], got[WORDS_BYTES];
    const char *family, *name, *rules, *expected;
    struct decide_outcome outcome;
    struct decide_input input;
    struct sample sample;
    struct engine engine;

    strcpy(copy, line);
    family = strtok(copy, "\t");
    name = strtok(NULL, "\t");
    rules = strtok(NULL, "\t");
    expected = strtok(NULL, "\t");
    sample_make(&sample, name);
    input = sample_input(&sample);
    input.mark = 5;
    input.iif = 2;
    input.iifname = engine_ifname("eth0");
    input.has_uid = input.has_gid = input.has_ct_state = true;
    input.uid = input.gid = 1000;
    input.ct_state = 8;
    engine = engine_of(family, rules, linear);
    outcome = ask(&engine, &settings, &input);
    describe(&engine, &outcome, got);
    if (strcmp(got, expected) != 0)
        print_error("%s\n", line);
    assert_string_equal(got, expected);
    engine_free(&engine);
    free(sample.vector.bytes);
}

static void vectors_are_decided_as_expected(void **state) {
    FILE *file = vectors_open("decide.txt");
    char line[LINE_BYTES];
    int vectors = 0;

    (void)state;
    for (; lines_next(file, line); vectors++) {
        check_vector(line, false);
        check_vector(line, true);
    }
    fclose(file);
    assert_true(vectors > 150);
}

static void without_a_policy_the_default_is_for_what_could_be_read(void **state) {
    const struct decide_settings all[] = {
        {.default_verdict = VERDICT_ACCEPT},
        {.default_verdict = VERDICT_DROP, .malformed_open = true},
        {.default_verdict = VERDICT_DROP, .truncated_open = true},
    };
    const struct packet packet = {0};

    (void)state;
    for (int status = PACKET_OK; status < PACKET_STATUS_COUNT; status++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const struct decide_input input = engine_input(&packet, (enum packet_status)status);
            const bool failed = packet_is_malformed((enum packet_status)status);
            const enum verdict fail = all[i].malformed_open ? VERDICT_ACCEPT : VERDICT_DROP;
            const enum verdict truncated = all[i].truncated_open ? VERDICT_ACCEPT : VERDICT_DROP;
            struct decide_outcome outcome;

            decide_packet(&all[i], NULL, NULL, NULL, &input, &outcome);
            assert_int_equal(outcome.verdict, failed ? fail : all[i].default_verdict);
            assert_int_equal(outcome.by, failed ? DECIDE_BY_FAIL : DECIDE_BY_DEFAULT);
            assert_int_equal(decide(&all[i], (enum packet_status)status, false), outcome.verdict);
            assert_int_equal(decide(&all[i], (enum packet_status)status, true), truncated);
        }
}

static void truncated_gets_the_fail_mode_whatever_the_status(void **state) {
    const struct decide_settings settings = {
        .default_verdict = VERDICT_DROP,
        .truncated_open = true,
        .malformed_by_policy = true,
    };
    struct engine engine = engine_of("inet", "drop", false);
    const struct packet packet = {0};

    (void)state;
    for (int status = PACKET_OK; status < PACKET_STATUS_COUNT; status++) {
        struct decide_input input = engine_input(&packet, (enum packet_status)status);

        input.truncated = true;
        assert_outcome(&engine, ask(&engine, &settings, &input), "accept fail");
    }
    engine_free(&engine);
}

static void malformed_gets_the_fail_mode_unless_the_policy_is_to_decide(void **state) {
    struct engine engine = engine_of("inet", "tcp dport 80 accept; drop", false);
    struct decide_settings settings = {.default_verdict = VERDICT_DROP};
    struct decide_outcome outcome;
    struct decide_input input;
    struct sample sample;

    (void)state;
    sample_make(&sample, "ipv4-tcp-4-bytes");
    input = sample_input(&sample);
    outcome = ask(&engine, &settings, &input);
    assert_outcome(&engine, outcome, "drop fail");
    assert_false(outcome.undecidable);
    settings.truncated_open = true;
    assert_outcome(&engine, ask(&engine, &settings, &input), "drop fail");
    settings.malformed_open = true;
    assert_outcome(&engine, ask(&engine, &settings, &input), "accept fail");
    settings.malformed_by_policy = true;
    assert_outcome(&engine, ask(&engine, &settings, &input), "accept rule 0");
    decide_packet(&settings, NULL, NULL, NULL, &input, &outcome);
    assert_int_equal(outcome.by, DECIDE_BY_FAIL);
    engine_free(&engine);
    free(sample.vector.bytes);
}

static void what_is_cut_cannot_be_decided_by_a_rule_that_reads_it(void **state) {
    struct decide_settings settings = {.default_verdict = VERDICT_ACCEPT};
    struct engine network = engine_of("inet", "ip saddr 10.9.0.1 accept", false);
    struct engine transport = engine_of("inet", "ip saddr 10.9.0.9 accept; th dport 1 drop", false);
    struct engine before_it = engine_of("inet", "ip saddr 10.9.0.1 accept; th dport 1 drop", false);
    struct engine other = engine_of("inet", "icmpv6 type 1 drop", false);
    struct engine icmp = engine_of("inet", "icmp type 1 drop", false);
    struct decide_outcome outcome;
    struct decide_input input;
    struct sample sample;

    (void)state;
    sample_make(&sample, "ipv4-options-uncopied");
    assert_int_equal(sample.status, PACKET_BEYOND_COPY);
    input = sample_input(&sample);
    assert_outcome(&network, ask(&network, &settings, &input), "accept rule 0");
    settings.malformed_open = true;
    outcome = ask(&transport, &settings, &input);
    assert_outcome(&transport, outcome, "drop fail");
    assert_true(outcome.undecidable);
    settings.truncated_open = true;
    assert_outcome(&transport, ask(&transport, &settings, &input), "accept fail");
    // An earlier rule decides without the missing field. Missing fields of another family have no
    // effect.
    assert_outcome(&before_it, ask(&before_it, &settings, &input), "accept rule 0");
    assert_outcome(&other, ask(&other, &settings, &input), "accept policy");
    free(sample.vector.bytes);
    sample_make(&sample, "ipv6-extension-uncopied");
    assert_int_equal(sample.status, PACKET_BEYOND_COPY);
    input = sample_input(&sample);
    assert_outcome(&icmp, ask(&icmp, &settings, &input), "accept policy");
    engine_free(&icmp);
    engine_free(&network);
    engine_free(&before_it);
    engine_free(&transport);
    engine_free(&other);
    free(sample.vector.bytes);
}

static void chains_see_their_hook_and_family(void **state) {
    const struct decide_settings settings = {.default_verdict = VERDICT_ACCEPT};
    const uint8_t hooks[] = {0, 2, 3, 4, 5, 255};
    struct engine engine = engine_of("ip6", "drop", false);
    struct decide_input input;
    struct sample sample;

    (void)state;
    sample_make(&sample, "ipv6-tcp");
    input = sample_input(&sample);
    assert_outcome(&engine, ask(&engine, &settings, &input), "drop rule 0");
    input.nfproto = 10;
    assert_outcome(&engine, ask(&engine, &settings, &input), "drop rule 0");
    // The kernel's protocol (nfproto) decides, not the version in the packet.
    input.nfproto = 2;
    assert_outcome(&engine, ask(&engine, &settings, &input), "accept default");
    input.nfproto = 7;
    assert_outcome(&engine, ask(&engine, &settings, &input), "accept default");
    input.nfproto = 0;
    for (size_t i = 0; i < sizeof hooks; i++) {
        input.hook = hooks[i];
        assert_outcome(&engine, ask(&engine, &settings, &input), "accept default");
    }
    engine_free(&engine);
    free(sample.vector.bytes);
}

/// Recorder of the chains and rules of a walk.
struct notes {
    size_t chain_count;
    struct compile_place chains[NOTES_MAX];
    uint32_t depths[NOTES_MAX];
    size_t step_count;
    struct decide_step steps[NOTES_MAX];
};

static void note_chain(void *context, struct compile_place chain, uint32_t depth) {
    struct notes *notes = context;

    assert_true(notes->chain_count < NOTES_MAX);
    notes->depths[notes->chain_count] = depth;
    notes->chains[notes->chain_count++] = chain;
}

static void note_rule(void *context, const struct decide_step *step) {
    struct notes *notes = context;

    assert_true(notes->step_count < NOTES_MAX);
    notes->steps[notes->step_count++] = *step;
}

static struct decide_outcome trace(const char *text, const char *name, struct notes *notes) {
    const struct decide_settings settings = {.default_verdict = VERDICT_DROP};
    const struct decide_recorder recorder = {note_chain, note_rule, notes};
    struct engine engine = engine_make(text, true);
    struct decide_outcome outcome;
    struct decide_input input;
    struct sample sample;

    sample_make(&sample, name);
    input = sample_input(&sample);
    *notes = (struct notes){0};
    decide_trace(&settings, engine.compiled, &engine.flow, &engine.counters, &input, &outcome,
                 &recorder);
    engine_free(&engine);
    free(sample.vector.bytes);
    return outcome;
}

#define BASE(name, hook, priority, rules)                                                          \
    "chain " name " {\n type filter hook " hook " priority " priority ";\n " rules "\n }\n"

static void base_chains_run_by_priority_and_of_one_the_last_declared_first(void **state) {
    static const char text[] =
        "table inet a {\n" BASE("x", "input", "5", "accept") BASE("y", "input", "-5", "accept")
            BASE("z", "output", "-9", "drop") "}\ntable ip b {\n" BASE("x", "input", "5", "counter")
                BASE("y", "input", "9", "drop") "}\n";
    static const uint32_t order[][2] = {{0, 1}, {1, 0}, {0, 0}, {1, 1}};
    struct decide_outcome outcome;
    struct notes notes;

    (void)state;
    outcome = trace(text, "ipv4-tcp", &notes);
    assert_int_equal(notes.chain_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(notes.chains[i].table, order[i][0]);
        assert_int_equal(notes.chains[i].chain, order[i][1]);
    }
    assert_int_equal(outcome.verdict, VERDICT_DROP);
    assert_int_equal(outcome.chain, 4);
    outcome = trace(text, "ipv6-tcp", &notes);
    assert_int_equal(notes.chain_count, 2);
    assert_int_equal(outcome.verdict, VERDICT_ACCEPT);
    assert_int_equal(outcome.by, DECIDE_BY_RULE);
}

static void statements_run_from_left_to_right(void **state) {
    static const struct flow_counter expected[] = {{9, 360}, {2, 80}, {7, 280}, {5, 200}, {0, 0}};
    const struct decide_settings settings = {.default_verdict = VERDICT_DROP};
    struct engine engine = engine_of("ip",
                                     "counter limit rate 1/hour burst 2 packets counter drop; "
                                     "counter limit rate 1/hour counter drop; "
                                     "ip saddr 9.9.9.9 counter",
                                     false);
    struct compile_place place;
    struct decide_input input;
    struct sample sample;
    int dropped = 0;

    (void)state;
    sample_make(&sample, "ipv4-tcp");
    input = sample_input(&sample);
    for (int i = 0; i < 9; i++)
        dropped += ask(&engine, &settings, &input).verdict == VERDICT_DROP;
    assert_int_equal(dropped, 7);
    // The default burst is 5.
    for (uint32_t i = 0; i < 5; i++) {
        const struct flow_counter got = engine_counter(&engine, i);

        assert_memory_equal(&got, &expected[i], sizeof got);
    }
    place = compile_counter_at(engine.compiled, 1);
    assert_int_equal(place.chain, 3);
    assert_int_equal(place.rule, 0);
    assert_int_equal(place.statement, 2);
    engine_free(&engine);
    free(sample.vector.bytes);
}

static void a_walk_tells_how_far_each_rule_came(void **state) {
    static const uint32_t expected[][5] = {
        {3, 0, 4, 0, DECIDE_HELD},      {2, 0, 1, 1, DECIDE_HELD},  {0, 0, 1, 2, DECIDE_HELD},
        {2, 1, 1, 1, DECIDE_HELD},      {0, 0, 1, 2, DECIDE_HELD},  {3, 1, 0, 0, DECIDE_MISSING},
        {3, 2, 0, 0, DECIDE_DIFFERS},   {3, 3, 0, 0, DECIDE_LIMIT}, {3, 4, 0, 0, DECIDE_QUOTA},
        {3, 5, 0, 0, DECIDE_NO_ANSWER}, {3, 6, 1, 0, DECIDE_HELD},
    };
    // The chains c, over, back by a jump, and back by a goto.
    static const uint32_t depths[] = {0, 1, 2, 2};
    char text[TEXT_BYTES];
    struct decide_outcome outcome;
    struct notes notes;

    (void)state;
    policy_of(text, "inet",
              "tcp dport 80 counter ip saddr 10.0.0.0/8 jump over; "
              "ip saddr . udp dport { 1.2.3.4 . 5 } drop; ip saddr != 10.9.0.1 drop; "
              "limit rate over 1/second drop; quota over 1 mbytes drop; "
              "reject with icmpv6 no-route; tcp dport vmap { 80 : accept }; drop");
    outcome = trace(text, "ipv4-tcp", &notes);
    assert_int_equal(notes.chain_count, 4);
    assert_memory_equal(notes.depths, depths, sizeof depths);
    assert_int_equal(notes.step_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < notes.step_count; i++) {
        const struct decide_step *step = &notes.steps[i];
        const uint32_t got[] = {step->place.chain, step->place.rule, step->place.statement,
                                step->depth, step->why};

        assert_memory_equal(got, expected[i], sizeof got);
    }
    assert_int_equal(notes.steps[0].verdict, POLICY_JUMP);
    assert_int_equal(notes.steps[2].verdict, POLICY_RETURN);
    assert_false(notes.steps[5].has_verdict);
    assert_true(notes.steps[10].has_verdict);
    assert_int_equal(notes.steps[10].verdict, POLICY_ACCEPT);
    assert_int_equal(notes.steps[5].missing, POLICY_UDP_DPORT);
    assert_int_equal(notes.steps[6].values_count, 1);
    assert_int_equal(notes.steps[6].values[0], 0x0a090001);
    assert_int_equal(outcome.verdict, VERDICT_ACCEPT);
}

static void a_way_of_sixteen_chains_is_walked(void **state) {
    char text[TEXT_BYTES] = "table ip t {\n";
    struct decide_outcome outcome;
    struct notes notes;

    (void)state;
    for (int number = 15; number >= 1; number--) {
        char next[16] = "counter";

        if (number < 15)
            snprintf(next, sizeof next, "jump c%d", number + 1);
        snprintf(text + strlen(text), TEXT_BYTES - strlen(text),
                 " chain c%d {\n %s\n counter\n }\n", number, next);
    }
    strcat(text, " chain c0 {\n type filter hook input priority 0;\n jump c1\n drop\n }\n}\n");
    outcome = trace(text, "ipv4-tcp", &notes);
    assert_int_equal(notes.chain_count, 16);
    assert_int_equal(notes.step_count, 2 + 15 * 2);
    assert_int_equal(outcome.verdict, VERDICT_DROP);
    assert_int_equal(notes.steps[notes.step_count - 1].depth, 0);
}

static void rules_behind_a_jump_of_an_indexed_chain_run_once(void **state) {
    static const uint32_t hits[] = {0, 11, 31, 32, 33, 34};
    const struct decide_settings settings = {.default_verdict = VERDICT_DROP};
    // The first rule has too many intervals for the index.
    char rules[TEXT_BYTES / 2] = "tcp dport 60-200 counter; ";
    struct decide_input input;
    struct sample sample;
    struct engine engine;
    size_t hit = 0;

    (void)state;
    for (int port = 60; port < 120; port += 2)
        snprintf(rules + strlen(rules), sizeof rules - strlen(rules),
                 "tcp dport %d counter jump back; ", port);
    strcat(rules, "tcp dport 80 counter; th dport 80 counter; tcp dport 80 counter jump over; "
                  "counter");
    engine = engine_of("ip", rules, false);
    sample_make(&sample, "ipv4-tcp");
    input = sample_input(&sample);
    assert_outcome(&engine, ask(&engine, &settings, &input), "accept policy");
    for (uint32_t i = 0; i < 35; i++) {
        const bool is_hit = hit < sizeof hits / sizeof *hits && hits[hit] == i;

        assert_int_equal(engine_counter(&engine, i).packets, is_hit);
        hit += is_hit;
    }
    engine_free(&engine);
    free(sample.vector.bytes);
}

static void assert_made(const char *rules, bool must_exist, const char *refused) {
    char text[TEXT_BYTES], expected[TEXT_BYTES];
    struct failure failure = {0};
    struct engine engine;

    policy_of(text, "ip", rules);
    if (!refused) {
        assert_int_equal(engine_compile(&engine, text, false, must_exist, &failure), 0);
        engine_free(&engine);
        return;
    }
    assert_true(engine_compile(&engine, text, false, must_exist, &failure) < 0);
    snprintf(expected, sizeof expected,
             "policy.nft:%s: \"eth9\": there is no network interface of this name: create it "
             "first, or match its name with iifname or oifname",
             refused);
    assert_string_equal(failure.text, expected);
}

static void interfaces_can_be_asked_to_exist(void **state) {
    (void)state;
    assert_made("iif eth0 drop", true, NULL);
    assert_made("iif { eth0, eth9 } drop", false, NULL);
    assert_made("iif eth9 drop", true, "7:2");
    assert_made("counter; iif { eth0, eth9 } drop", true, "8:13");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_decided_as_expected),
        cmocka_unit_test(without_a_policy_the_default_is_for_what_could_be_read),
        cmocka_unit_test(truncated_gets_the_fail_mode_whatever_the_status),
        cmocka_unit_test(malformed_gets_the_fail_mode_unless_the_policy_is_to_decide),
        cmocka_unit_test(what_is_cut_cannot_be_decided_by_a_rule_that_reads_it),
        cmocka_unit_test(chains_see_their_hook_and_family),
        cmocka_unit_test(base_chains_run_by_priority_and_of_one_the_last_declared_first),
        cmocka_unit_test(statements_run_from_left_to_right),
        cmocka_unit_test(a_walk_tells_how_far_each_rule_came),
        cmocka_unit_test(a_way_of_sixteen_chains_is_walked),
        cmocka_unit_test(rules_behind_a_jump_of_an_indexed_chain_run_once),
        cmocka_unit_test(interfaces_can_be_asked_to_exist),
    };

    return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
