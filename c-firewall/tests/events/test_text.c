// SPDX-License-Identifier: GPL-2.0-or-later
// Tests lines of events: those of tests/corpus/vectors/events.txt, for packets that the policy
// events.nft decides, and those about the program itself.
#include "events/text.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/flow.h"
#include "events/headers.h"
#include "lines.h"
#include "options/options.h"
#include "policy/parse/parse.h"
#include "test.h"
#include "vectors.h"
#include "worker/event.h"

#define TIME_NS UINT64_C(1700000000123456789)

enum { LINES_MAX = 4 };

/// Block of test vectors: a packet, its metadata, and its expected lines.
struct block {
    char name[64];
    uint8_t bytes[512];
    uint32_t captured;
    uint32_t original;
    struct decide_input input;
    uint16_t ethertype;
    char iifname[32], oifname[32];
    bool no_policy;
    uint32_t line_count;
    char *lines[LINES_MAX];
    char *full;         // expected line with the packet's bytes; NULL if it is not tested
    struct names names; // names that the packet's client has sent
};

/// Policy of the tests, its compiled form and its state.
struct rules {
    struct policy policy;
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

static struct rules rules;

static int load_rules(void **state) {
    const struct compile_settings settings = {0};
    FILE *file = vectors_open("events.nft");
    struct failure failure;
    static uint8_t text[4096];
    const size_t length = fread(text, 1, sizeof text, file);

    (void)state;
    fclose(file);
    assert_int_equal(parse_text("web.nft", text, length, &rules.policy, &failure), 0);
    assert_int_equal(compile_policy(&rules.policy, &settings, &rules.compiled, &failure), 0);
    assert_int_equal(flow_make(&rules.flow, rules.compiled), 0);
    assert_int_equal(flow_counters_make(&rules.counters, rules.compiled), 0);
    return 0;
}

static int free_rules(void **state) {
    (void)state;
    flow_counters_free(&rules.counters);
    flow_free(&rules.flow);
    compile_free(rules.compiled);
    policy_free(&rules.policy);
    return 0;
}

static void take_hex(struct block *block, const char *digits) {
    unsigned byte;
    int taken;

    for (; sscanf(digits, " %2x%n", &byte, &taken) == 1; digits += taken)
        block->bytes[block->captured++] = (uint8_t)byte;
}

/// Decodes an escaped text into a field of `struct names`. Returns the number of decoded bytes.
static uint8_t keep(uint8_t *to, size_t room, const char *text) {
    char *bytes = strdup(text);
    const size_t length = lines_unescape(bytes);

    assert_true(length <= room);
    memcpy(to, bytes, length);
    free(bytes);
    return (uint8_t)length;
}

/// Parses a pair about the names that the packet's client has sent. Returns false for other keys,
/// and for unknown protocols.
static bool take_names(struct names *names, const char *pair, size_t key, const char *text) {
    static const char *const protocols[] = {
        [NAMES_TLS] = "tls", [NAMES_QUIC] = "quic", [NAMES_HTTP] = "http", [NAMES_DNS] = "dns"};

    if (strlen("protocol") == key && strncmp(pair, "protocol", key) == 0) {
        names->state = NAMES_KNOWN;
        for (int i = NAMES_TLS; i <= NAMES_DNS; i++)
            if (strcmp(text, protocols[i]) == 0)
                names->protocol = (enum names_protocol)i;
        return names->protocol != NAMES_OTHER;
    }
    if (strlen("host") == key && strncmp(pair, "host", key) == 0)
        names->host_length = keep(names->host, sizeof names->host, text);
    else if (strlen("method") == key && strncmp(pair, "method", key) == 0)
        names->method_length = keep(names->method, sizeof names->method, text);
    else if (strlen("version") == key && strncmp(pair, "version", key) == 0)
        names->version = (uint16_t)strtoul(text, NULL, 10);
    else if (strlen("dns_type") == key && strncmp(pair, "dns_type", key) == 0)
        names->dns_type = (uint16_t)strtoul(text, NULL, 10);
    else
        return false;
    return true;
}

/// Parses a pair "key=value" of the line `with`; numbers are decimal.
static void take_with(struct block *block, const char *pair) {
    const char *text = strchr(pair, '=') + 1;
    const size_t key = (size_t)(text - pair) - 1;
    const uint32_t value = (uint32_t)strtoul(text, NULL, 10);
    struct decide_input *input = &block->input;

    if (strlen("hook") == key && strncmp(pair, "hook", key) == 0)
        input->hook = (uint8_t)value;
    else if (strlen("ethertype") == key && strncmp(pair, "ethertype", key) == 0)
        block->ethertype = (uint16_t)value;
    else if (strlen("iif") == key && strncmp(pair, "iif", key) == 0)
        input->iif = value;
    else if (strlen("oif") == key && strncmp(pair, "oif", key) == 0)
        input->oif = value;
    else if (strlen("mark") == key && strncmp(pair, "mark", key) == 0)
        input->mark = value;
    else if (strlen("uid") == key && strncmp(pair, "uid", key) == 0)
        input->has_uid = true, input->uid = value;
    else if (strlen("gid") == key && strncmp(pair, "gid", key) == 0)
        input->has_gid = true, input->gid = value;
    else if (strlen("ct_state") == key && strncmp(pair, "ct_state", key) == 0)
        input->has_ct_state = true, input->ct_state = value;
    else if (strlen("ct_mark") == key && strncmp(pair, "ct_mark", key) == 0)
        input->has_ct_mark = true, input->ct_mark = value;
    else if (strlen("truncated") == key && strncmp(pair, "truncated", key) == 0)
        input->truncated = value;
    else if (strlen("policy") == key && strncmp(pair, "policy", key) == 0)
        block->no_policy = value == 0;
    else if (strlen("iifname") == key && strncmp(pair, "iifname", key) == 0)
        block->iifname[lines_unescape(strcpy(block->iifname, text))] = '\0';
    else if (strlen("oifname") == key && strncmp(pair, "oifname", key) == 0)
        block->oifname[lines_unescape(strcpy(block->oifname, text))] = '\0';
    else if (!take_names(&block->names, pair, key, text))
        fail_msg("%s: %s", block->name, pair);
}

static void take_line(struct block *block, char *line) {
    char *value = strchr(line, ' '), *pair;

    *value++ = '\0';
    if (strcmp(line, "name") == 0)
        snprintf(block->name, sizeof block->name, "%s", value);
    else if (strcmp(line, "hex") == 0)
        take_hex(block, value);
    else if (strcmp(line, "original") == 0)
        block->original = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(line, "with") == 0)
        while ((pair = strsep(&value, " ")))
            take_with(block, pair);
    else if (strcmp(line, "expect") == 0)
        block->lines[block->line_count++] = strdup(value);
    else if (strcmp(line, "full") == 0)
        block->full = strdup(value);
    else
        fail_msg("%s: %s", block->name, line);
}

/// Reads the next block. Returns false at the end of the file.
static bool next(FILE *file, struct block *block) {
    char *line = NULL;
    size_t size = 0;

    *block = (struct block){.input.hook = POLICY_INPUT, .ethertype = 0x0800};
    while (getline(&line, &size, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' && block->name[0] != '\0')
            break;
        if (line[0] != '\0' && line[0] != '#')
            take_line(block, line);
    }
    free(line);
    return block->name[0] != '\0';
}

/// Checks that a line is JSON and equals the expected line. If the environment has EVENTS_SHOW,
/// prints the line instead.
static void check(const struct block *block, const char *key, char *line, const char *expected) {
    json_t *object;

    assert_non_null(line);
    assert_int_equal(line[strlen(line) - 1], '\n');
    line[strlen(line) - 1] = '\0';
    object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    json_decref(object);
    if (getenv("EVENTS_SHOW"))
        printf("%s: %s %s\n", block->name, key, line);
    else if (!expected || strcmp(line, expected) != 0)
        fail_msg("%s: %s\n is %s", block->name, expected ? expected : "no further line", line);
    free(line);
}

static void check_block(struct block *block, struct event_ring *ring) {
    const struct decide_settings settings = {.default_verdict = VERDICT_ACCEPT};
    struct event_text text = {.iifname = block->iifname, .oifname = block->oifname};
    struct decide_outcome outcome;
    struct packet packet;
    struct event event;
    uint32_t log = 0;

    block->input.status = packet_parse(block->bytes, block->captured, block->original, &packet);
    block->input.packet = &packet;
    block->input.names = &block->names;
    block->input.length = packet.original;
    decide_packet(&settings, block->no_policy ? NULL : rules.compiled, &rules.flow, &rules.counters,
                  &block->input, &outcome);
    event_note(ring, block->no_policy ? 0 : 3, block->ethertype, &block->input, &outcome);
    event = *event_peek(ring);
    event_drop(ring);
    event.time_ns = TIME_NS;
    text.event = &event;
    if (!block->no_policy) {
        text.policy = &rules.policy;
        text.compiled = rules.compiled;
    }
    for (; log < outcome.log_count; log++)
        check(block, "expect", events_text_log(&text, log), block->lines[log]);
    check(block, "expect", events_text_packet(&text, false), block->lines[log]);
    if (block->full)
        check(block, "full", events_text_packet(&text, true), block->full);
    if (!getenv("EVENTS_SHOW"))
        assert_int_equal(block->line_count, log + 1);
}

static void packets_become_the_lines_of_the_vectors(void **state) {
    FILE *file = vectors_open("events.txt");
    struct event_bell bell = {.fd = -1};
    struct event_ring ring;
    struct block block;
    uint32_t blocks = 0;

    (void)state;
    assert_int_equal(event_ring_make(&ring, 7, &bell), 0);
    for (; next(file, &block); blocks++) {
        check_block(&block, &ring);
        for (uint32_t i = 0; i < block.line_count; i++)
            free(block.lines[i]);
        free(block.full);
    }
    fclose(file);
    event_ring_free(&ring);
    assert_true(blocks > 10);
}

static uint64_t flow_of(const char *hex) {
    struct block block = {0};
    struct packet packet;

    take_hex(&block, hex);
    packet_parse(block.bytes, block.captured, 0, &packet);
    return events_headers_flow_id(&packet);
}

static void a_flow_is_the_same_in_both_directions(void **state) {
    const uint64_t there =
        flow_of("4500001c0000000040110000 0a000001 0a000002 0035 1234 0008 0000");
    const uint64_t back = flow_of("4500001c0000000040110000 0a000002 0a000001 1234 0035 0008 0000");
    const uint64_t other =
        flow_of("4500001c0000000040110000 0a000001 0a000002 0036 1234 0008 0000");
    // With exchanged ports but the same addresses, the flow is another flow.
    const uint64_t crossed =
        flow_of("4500001c0000000040110000 0a000001 0a000002 1234 0035 0008 0000");

    (void)state;
    assert_true(there == back);
    assert_true(there != other && there != crossed);
    assert_true(there < UINT64_C(1) << 51);
    assert_true(flow_of("45") == 0);
}

static void the_programs_own_events_have_text_and_figures(void **state) {
    const struct events_facts facts = {
        .text = "a \"b\"\n\x1f",
        .figures = {3, UINT64_C(1) << 40},
    };
    char *line = events_text_own_line(TIME_NS, EVENTS_STALL, &facts);

    (void)state;
    assert_string_equal(line, "{\"timestamp\":\"2023-11-14T22:13:20.123456+0000\","
                              "\"event_type\":\"twinwall\",\"twinwall\":{\"event\":\"stall\","
                              "\"program\":\"c-firewall\",\"version\":\"" OPTIONS_VERSION
                              "\",\"text\":\"a \\\"b\\\"\\n\\u001F\",\"queue\":3,"
                              "\"packets\":1099511627776}}\n");
    free(line);
    line = events_text_own_line(TIME_NS, EVENTS_RELOAD_FAILED, NULL);
    assert_string_equal(line, "{\"timestamp\":\"2023-11-14T22:13:20.123456+0000\","
                              "\"event_type\":\"twinwall\",\"twinwall\":{"
                              "\"event\":\"reload_failed\",\"program\":\"c-firewall\","
                              "\"version\":\"" OPTIONS_VERSION "\"}}\n");
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_become_the_lines_of_the_vectors),
        cmocka_unit_test(a_flow_is_the_same_in_both_directions),
        cmocka_unit_test(the_programs_own_events_have_text_and_figures),
    };

    return cmocka_run_group_tests(tests, load_rules, free_rules);
}
