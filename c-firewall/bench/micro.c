// SPDX-License-Identifier: GPL-2.0-or-later
// What a decision costs, without kernel and queue: prints `NAME NANOSECONDS` for each policy. With
// `CASE ROUNDS` it decides all packets so often by one policy and prints nothing, for who counts
// instructions. The Rust twin's benches/micro.rs does the same with the same policies and packets.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/compile.h"
#include "engine/decide.h"
#include "policy/parse/parse.h"

enum {
    PACKETS = 512,
    PACKET_BYTES = 40,
    TEXT_BYTES = 4 << 20,
    CASE_NS = 60000000, // that a case is measured for, after as long to warm up
    SECOND_NS = 1000000000,
};

/// Odd, so that its multiples are scattered (2^32 / golden ratio).
#define STRIDE 2654435761U

/// A text that grows. There is room for all of them.
struct text {
    char *start;
    size_t bytes;
};

#define ADD(text, ...)                                                                             \
    ((text)->bytes +=                                                                              \
     (size_t)snprintf((text)->start + (text)->bytes, TEXT_BYTES - (text)->bytes, __VA_ARGS__))

static const char head[] = "table inet filter {\n";
static const char input[] =
    "\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n";

static void ten_mixed(struct text *text, uint32_t size) {
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

static void ports(struct text *text, uint32_t size) {
    ADD(text, "%s%s", head, input);
    for (uint32_t i = 0; i < size; i++)
        ADD(text, "\t\ttcp dport %u drop\n", 10000 + i);
    ADD(text, "\t}\n}\n");
}

static void addresses(struct text *text, uint32_t size) {
    ADD(text, "%s%s", head, input);
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t address = i * STRIDE;

        ADD(text, "\t\tip saddr %u.%u.%u.%u drop\n", address >> 24, address >> 16 & 255,
            address >> 8 & 255, address & 255);
    }
    ADD(text, "\t}\n}\n");
}

/// Prefixes of /26 to /32, each in a /26 of 10.0.0.0/8.
static void prefixes(struct text *text, uint32_t size) {
    ADD(text, "%s\tset listed {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = {\n", head);
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t address = (i * STRIDE & 0x3ffff) << 6;

        ADD(text, "\t\t\t10.%u.%u.%u/%u,\n", address >> 16 & 255, address >> 8 & 255, address & 255,
            26 + i % 7);
    }
    ADD(text, "\t\t}\n\t}\n%s\t\tip saddr @listed drop\n\t}\n}\n", input);
}

/// A policy of some size.
struct policy_case {
    const char *name;
    void (*make)(struct text *text, uint32_t size);
    uint32_t size;
};

static const struct policy_case cases[] = {
    {"ten-mixed", ten_mixed, 10},          {"10-ports", ports, 10},
    {"10000-ports", ports, 10000},         {"10-addresses", addresses, 10},
    {"10000-addresses", addresses, 10000}, {"10-prefixes", prefixes, 10},
    {"100000-prefixes", prefixes, 100000},
};

/// Packets that are to be decided.
struct load {
    uint8_t bytes[PACKETS][PACKET_BYTES];
    struct packet packets[PACKETS];
    struct decide_input inputs[PACKETS];
};

/// IPv4 with TCP; sources and ports are scattered, half of the sources in 10.0.0.0/8.
static void make_load(struct load *load) {
    static const uint8_t common[PACKET_BYTES] = {0x45, 0, 0, 40, 0,  0, 0x40, 0, 64,   6,    0, 0,
                                                 0,    0, 0, 0,  10, 0, 1,    1, 0x9c, 0x40, 0, 0,
                                                 0,    0, 0, 0,  0,  0, 0,    0, 0x50, 0x02};

    for (uint32_t i = 0; i < PACKETS; i++) {
        const uint32_t scattered = (i + 7) * 40503U * STRIDE;
        uint8_t *bytes = load->bytes[i];
        enum packet_status status;

        memcpy(bytes, common, sizeof common);
        bytes[12] = i % 2 ? 10 : (uint8_t)(scattered >> 24);
        bytes[13] = (uint8_t)(scattered >> 16);
        bytes[14] = (uint8_t)(scattered >> 8);
        bytes[15] = (uint8_t)scattered;
        bytes[22] = (uint8_t)(scattered >> 20);
        bytes[23] = (uint8_t)(scattered >> 12);
        status = packet_parse(bytes, PACKET_BYTES, PACKET_BYTES, &load->packets[i]);
        load->inputs[i] = (struct decide_input){
            .packet = &load->packets[i],
            .status = status,
            .hook = POLICY_INPUT,
            .nfproto = 2,
            .length = PACKET_BYTES,
            .iif = 2,
            .iifname = (policy_value)0x65746830 << 96, // eth0
            .has_ct_state = true,
            .ct_state = 8,
        };
    }
}

static uint64_t clock_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/// What is decided with.
struct subject {
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

static struct subject make_subject(const struct policy_case *policy_case) {
    static const struct compile_settings settings = {0};
    struct text text = {.start = malloc(TEXT_BYTES)};
    struct subject subject;
    struct policy policy;
    struct failure failure;

    policy_case->make(&text, policy_case->size);
    if (parse_text("micro.nft", (const uint8_t *)text.start, text.bytes, &policy, &failure) < 0 ||
        compile_policy(&policy, &settings, &subject.compiled, &failure) < 0)
        exit(log_fail(&failure));
    if (flow_make(&subject.flow, subject.compiled) < 0 ||
        flow_counters_make(&subject.counters, subject.compiled) < 0)
        abort();
    policy_free(&policy);
    free(text.start);
    return subject;
}

/// Decides all packets. Returns how many are accepted.
static uint32_t decide_all(struct subject *subject, const struct load *load) {
    static const struct decide_settings settings = {.default_verdict = VERDICT_DROP};
    uint32_t accepted = 0;

    for (uint32_t i = 0; i < PACKETS; i++) {
        struct decide_outcome outcome;

        decide_packet(&settings, subject->compiled, &subject->flow, &subject->counters,
                      &load->inputs[i], &outcome);
        accepted += outcome.verdict == VERDICT_ACCEPT;
    }
    return accepted;
}

/// Nanoseconds a decision, over as many rounds as fit into CASE_NS.
static double measure(struct subject *subject, const struct load *load) {
    volatile uint32_t accepted = 0;
    uint64_t rounds = 0, start = clock_ns(), passed;

    do {
        accepted += decide_all(subject, load);
        rounds++;
        passed = clock_ns() - start;
    } while (passed < CASE_NS);
    return (double)passed / (double)(rounds * PACKETS);
}

static void free_subject(struct subject *subject) {
    flow_free(&subject->flow);
    flow_counters_free(&subject->counters);
    compile_free(subject->compiled);
}

/// Decides by one policy as often as asked for.
static void repeat(const char *name, uint32_t rounds, const struct load *load) {
    volatile uint32_t accepted = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, name) != 0)
            continue;
        struct subject subject = make_subject(&cases[i]);

        for (uint32_t round = 0; round < rounds; round++)
            accepted += decide_all(&subject, load);
        free_subject(&subject);
    }
}

int main(int count, char **words) {
    static struct load load;

    make_load(&load);
    if (count == 3) {
        repeat(words[1], (uint32_t)strtoul(words[2], NULL, 10), &load);
        return 0;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject subject = make_subject(&cases[i]);

        measure(&subject, &load);
        printf("%s %.2f\n", cases[i].name, measure(&subject, &load));
        free_subject(&subject);
    }
    return 0;
}
