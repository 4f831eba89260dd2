// SPDX-License-Identifier: GPL-2.0-or-later
// Tests that random policies have the same verdicts and counters with and without indexes, and in
// both twins.
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "test.h"

enum {
    POLICIES = 60,
    PACKETS = 400,
};

/// Hash of all results for the random numbers of seed 1; the same in both twins.
#define DIGEST 0x94b9239967da7d2cULL

static const struct decide_settings settings = {.default_verdict = VERDICT_DROP,
                                                .malformed_by_policy = true};

/// Recorder that counts the chains and rules that are reported.
struct steps {
    size_t rules;
    size_t chains;
};

static void count_chain(void *context, struct compile_place chain, uint32_t depth) {
    struct steps *steps = context;

    (void)chain;
    (void)depth;
    steps->chains++;
}

static void count_rule(void *context, const struct decide_step *step) {
    struct steps *steps = context;

    (void)step;
    steps->rules++;
}

static void mix(uint64_t *digest, uint64_t number) {
    *digest = (*digest ^ number) * 0x100000001b3ULL;
    *digest ^= *digest >> 29;
}

static void mix_outcome(uint64_t *digest, const struct decide_outcome *outcome) {
    mix(digest, outcome->verdict);
    mix(digest, outcome->by);
    mix(digest, outcome->rule);
    mix(digest, outcome->chain);
    mix(digest, outcome->mark_set);
    mix(digest, outcome->mark);
    mix(digest, outcome->verdict == VERDICT_REJECT ? outcome->reject.kind : 99);
}

static void mix_counters(uint64_t *digest, const struct engine *engine) {
    for (uint32_t i = 0; i < compile_counters(engine->compiled); i++) {
        const struct flow_counter counter = engine_counter(engine, i);

        mix(digest, counter.packets);
        mix(digest, counter.bytes);
    }
    for (uint32_t i = 0; i < compile_logs(engine->compiled); i++)
        mix(digest, flow_logged(&engine->counters, i));
}

static void assert_same(const struct decide_outcome *one, const struct decide_outcome *other) {
    uint64_t digests[2] = {0};

    mix_outcome(&digests[0], one);
    mix_outcome(&digests[1], other);
    assert_int_equal(digests[0], digests[1]);
}

static void trace(struct engine *engine, const struct decide_input *input,
                  struct decide_outcome *outcome, struct steps *steps) {
    const struct decide_recorder recorder = {count_chain, count_rule, steps};

    decide_trace(&settings, engine->compiled, &engine->flow, &engine->counters, input, outcome,
                 &recorder);
}

/// Returns the number of captured bytes of a packet: a random number for one in four packets,
/// otherwise all bytes.
static uint32_t captured_of(struct random *random, uint32_t count) {
    return random_below(random, 4) == 0 ? random_below(random, count + 1) : count;
}

/// Checks that a packet has the same outcome with its captured bytes and with all bytes, unless the
/// outcome is undecidable.
static void assert_as_whole(const char *text, const uint8_t *bytes, uint32_t count,
                            const struct decide_input *input) {
    struct engine of_part = engine_make(text, false), of_whole = engine_make(text, false);
    struct decide_outcome part, whole;
    struct decide_input all = *input;
    struct packet packet;

    all.status = packet_parse(bytes, count, count, &packet);
    all.packet = &packet;
    decide_packet(&settings, of_part.compiled, &of_part.flow, &of_part.counters, input, &part);
    decide_packet(&settings, of_whole.compiled, &of_whole.flow, &of_whole.counters, &all, &whole);
    assert_false(whole.undecidable);
    // Without a captured byte the packet's version is unknown.
    if (!part.undecidable && input->packet->captured > 0)
        assert_same(&part, &whole);
    engine_free(&of_part);
    engine_free(&of_whole);
}

/// Decides packets by a policy compiled with indexes and without indexes.
/// - all, found: in/out: number of rules that were evaluated without indexes, and with indexes.
static void compare(struct random *random, uint64_t *digest, struct steps *all,
                    struct steps *found) {
    static char text[ENGINE_TEXT_BYTES];
    struct engine indexed, linear, seen;

    engine_policy_text(random, text);
    indexed = engine_make(text, false);
    linear = engine_make(text, true);
    seen = engine_make(text, false);
    for (uint64_t number = 0; number < PACKETS; number++) {
        uint8_t bytes[ENGINE_PACKET_BYTES];
        const uint32_t count = engine_packet_bytes(random, bytes);
        const uint32_t captured = captured_of(random, count);
        struct decide_outcome outcome, traced, other;
        struct packet packet;
        const enum packet_status status = packet_parse(bytes, captured, count, &packet);
        struct decide_input input = engine_input(&packet, status);
        char name[8];

        input.mark = random_below(random, 6);
        input.iif = 2 + random_below(random, 4);
        snprintf(name, sizeof name, "eth%u", (input.iif - 2) % 4);
        input.iifname = engine_ifname(name);
        input.has_ct_state = random_below(random, 2) == 0;
        if (input.has_ct_state)
            input.ct_state = 1U << random_below(random, 4);
        input.now_ns = number * 50000000;
        decide_packet(&settings, indexed.compiled, &indexed.flow, &indexed.counters, &input,
                      &outcome);
        trace(&linear, &input, &traced, all);
        trace(&seen, &input, &other, found);
        assert_same(&outcome, &traced);
        assert_same(&outcome, &other);
        mix_outcome(digest, &outcome);
        mix(digest, outcome.undecidable);
        if (captured < count && number % 16 == 0)
            assert_as_whole(text, bytes, count, &input);
    }
    for (uint32_t i = 0; i < compile_counters(indexed.compiled); i++) {
        const struct flow_counter one = engine_counter(&indexed, i);
        const struct flow_counter two = engine_counter(&linear, i);

        assert_memory_equal(&one, &two, sizeof one);
    }
    mix_counters(digest, &indexed);
    engine_free(&indexed);
    engine_free(&linear);
    engine_free(&seen);
}

static void indexes_and_twins_change_nothing(void **state) {
    struct random random = {1};
    struct steps all = {0}, found = {0};
    uint64_t digest = 0;

    (void)state;
    for (int i = 0; i < POLICIES; i++)
        compare(&random, &digest, &all, &found);
    assert_int_equal(all.chains, found.chains);
    assert_true(10 * found.rules < 8 * all.rules);
    assert_int_equal(digest, DIGEST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_and_twins_change_nothing),
    };

    return cmocka_run_group_tests_name("decide_random", tests, NULL, NULL);
}
