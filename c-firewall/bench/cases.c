// SPDX-License-Identifier: GPL-2.0-or-later
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/compile.h"
#include "policy/parse/parse.h"

enum {
    TEXT_BYTES = 4 << 20,
};

static const struct decide_settings settings = {.default_verdict = VERDICT_DROP};

/// Text that is being written, with room for the longest policy.
struct case_text {
    char *start;
    size_t bytes;
};

#define ADD(text, ...)                                                                             \
    ((text)->bytes +=                                                                              \
     (size_t)snprintf((text)->start + (text)->bytes, TEXT_BYTES - (text)->bytes, __VA_ARGS__))

static const char head[] = "table inet filter {\n";
static const char input[] =
    "\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n";

static void ten_mixed(struct case_text *text, uint32_t size) {
    (void)size;
    ADD(text,
        "%s\tset admins {\n\t\ttype ipv4_addr\n\t\tflags interval\n"
        "\t\telements = { 10.1.0.0/16, 192.0.2.1 }\n\t}\n%s"
        "\t\tct state established,related accept\n"
        "\t\tct state invalid drop\n"
        "\t\tiifname \"lo\" accept\n"
        "\t\tip saddr 203.0.113.0/24 counter drop\n"
        "\t\ttcp flags & (fin | syn) == fin | syn drop\n"
        "\t\ticmp type echo-request limit rate 10/second accept\n"
        "\t\tip saddr @admins tcp dport 22 accept\n"
        "\t\ttcp dport { 80, 443, 8000-8100 } counter accept\n"
        "\t\tudp dport 53 accept\n"
        "\t\tcounter drop\n"
        "\t}\n}\n",
        head, input);
}

static void ports(struct case_text *text, uint32_t size) {
    ADD(text, "%s%s", head, input);
    for (uint32_t i = 0; i < size; i++)
        ADD(text, "\t\ttcp dport %u drop\n", 10000 + i);
    ADD(text, "\t}\n}\n");
}

static void addresses(struct case_text *text, uint32_t size) {
    ADD(text, "%s%s", head, input);
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t address = i * CASES_STRIDE;

        ADD(text, "\t\tip saddr %u.%u.%u.%u drop\n", address >> 24, address >> 16 & 255,
            address >> 8 & 255, address & 255);
    }
    ADD(text, "\t}\n}\n");
}

/// Writes a policy with a set of prefixes from /26 to /32, each in a /26 of its own in 10.0.0.0/8.
static void prefixes(struct case_text *text, uint32_t size) {
    ADD(text, "%s\tset listed {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = {\n", head);
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t address = (i * CASES_STRIDE & 0x3ffff) << 6;

        ADD(text, "\t\t\t10.%u.%u.%u/%u,\n", address >> 16 & 255, address >> 8 & 255, address & 255,
            26 + i % 7);
    }
    ADD(text, "\t\t}\n\t}\n%s\t\tip saddr @listed drop\n\t}\n}\n", input);
}

const struct policy_case cases[CASE_COUNT] = {
    {"ten-mixed", ten_mixed, 10},          {"10-ports", ports, 10},
    {"10000-ports", ports, 10000},         {"10-addresses", addresses, 10},
    {"10000-addresses", addresses, 10000}, {"10-prefixes", prefixes, 10},
    {"100000-prefixes", prefixes, 100000},
};

struct decide_input cases_input(const struct packet *packet, enum packet_status status) {
    return (struct decide_input){
        .packet = packet,
        .status = status,
        .hook = POLICY_INPUT,
        .nfproto = 2,
        .length = packet->end,
        .iif = 2,
        .iifname = (policy_value)0x65746830 << 96, // eth0
        .has_ct_state = true,
        .ct_state = 8,
    };
}

/// Creates IPv4 packets with TCP. Source addresses and destination ports are scattered. Half of the
/// source addresses are in 10.0.0.0/8.
void cases_make_load(struct case_load *load) {
    static const uint8_t common[CASES_PACKET_BYTES] = {
        0x45, 0, 0, 40,   0,    0, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0,    10,
        0,    1, 1, 0x9c, 0x40, 0, 0,    0, 0,  0, 0, 0, 0, 0, 0, 0x50, 0x02};

    for (uint32_t i = 0; i < CASES_PACKETS; i++) {
        const uint32_t scattered = (i + 7) * 40503U * CASES_STRIDE;
        uint8_t *bytes = load->bytes[i];
        enum packet_status status;

        memcpy(bytes, common, sizeof common);
        bytes[12] = i % 2 ? 10 : (uint8_t)(scattered >> 24);
        bytes[13] = (uint8_t)(scattered >> 16);
        bytes[14] = (uint8_t)(scattered >> 8);
        bytes[15] = (uint8_t)scattered;
        bytes[22] = (uint8_t)(scattered >> 20);
        bytes[23] = (uint8_t)(scattered >> 12);
        status = packet_parse(bytes, CASES_PACKET_BYTES, CASES_PACKET_BYTES, &load->packets[i]);
        load->inputs[i] = cases_input(&load->packets[i], status);
    }
}

struct case_subject cases_compile(const char *text) {
    static const struct compile_settings how = {0};
    struct case_subject subject;
    struct policy policy;
    struct failure failure;

    if (parse_text("micro.nft", (const uint8_t *)text, strlen(text), &policy, &failure) < 0 ||
        compile_policy(&policy, &how, &subject.compiled, &failure) < 0)
        exit(log_fail(&failure));
    if (flow_make(&subject.flow, subject.compiled) < 0 ||
        flow_counters_make(&subject.counters, subject.compiled) < 0)
        abort();
    policy_free(&policy);
    return subject;
}

struct case_subject cases_make_subject(const struct policy_case *policy_case) {
    struct case_text text = {.start = malloc(TEXT_BYTES)};
    struct case_subject subject;

    policy_case->make(&text, policy_case->size);
    subject = cases_compile(text.start);
    free(text.start);
    return subject;
}

void cases_decide(struct case_subject *subject, const struct decide_input *input,
                  struct decide_outcome *outcome) {
    decide_packet(&settings, subject->compiled, &subject->flow, &subject->counters, input, outcome);
}

uint32_t cases_decide_all(struct case_subject *subject, const struct case_load *load) {
    uint32_t accepted = 0;

    for (uint32_t i = 0; i < CASES_PACKETS; i++) {
        struct decide_outcome outcome;

        cases_decide(subject, &load->inputs[i], &outcome);
        accepted += outcome.verdict == VERDICT_ACCEPT;
    }
    return accepted;
}

void cases_free_subject(struct case_subject *subject) {
    flow_free(&subject->flow);
    flow_counters_free(&subject->counters);
    compile_free(subject->compiled);
}
