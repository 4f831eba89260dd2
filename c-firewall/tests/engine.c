// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/parse.h"

enum {
    PORTS = 60,
    ADDRESSES = 48,
    MARKS = 6,
    CHAINS = 4,
};

uint32_t engine_interface_index(const char *name, void *context) {
    static const char *const names[] = {"lo", "eth0", "eth1", "eth2", "eth3"};

    (void)context;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return i + 1;
    return 0;
}

int engine_compile(struct engine *engine, const char *text, bool linear, bool must_exist,
                   struct failure *failure) {
    const struct compile_settings settings = {
        .linear = linear,
        .interface_index = engine_interface_index,
        .interfaces_must_exist = must_exist,
    };
    struct policy policy;
    int result = parse_text("policy.nft", (const uint8_t *)text, strlen(text), &policy, failure);

    if (result < 0)
        return result;
    *engine = (struct engine){0};
    result = compile_policy(&policy, &settings, &engine->compiled, failure);
    policy_free(&policy);
    if (result < 0)
        return result;
    if (flow_make(&engine->flow, engine->compiled) < 0 ||
        flow_counters_make(&engine->counters, engine->compiled) < 0)
        abort();
    return 0;
}

struct engine engine_make(const char *text, bool linear) {
    struct failure failure;
    struct engine engine;

    if (engine_compile(&engine, text, linear, false, &failure) < 0) {
        fprintf(stderr, "%s\n%s\n", failure.text, text);
        abort();
    }
    return engine;
}

void engine_free(struct engine *engine) {
    flow_free(&engine->flow);
    flow_counters_free(&engine->counters);
    compile_free(engine->compiled);
}

struct flow_counter engine_counter(const struct engine *engine, uint32_t counter) {
    struct flow_counter sum = {0};

    flow_sum(&engine->counters, counter, &sum);
    return sum;
}

struct decide_input engine_input(const struct packet *packet, enum packet_status status) {
    return (struct decide_input){
        .packet = packet,
        .status = status,
        .hook = POLICY_INPUT,
        .length = packet->original,
    };
}

policy_value engine_ifname(const char *name) {
    policy_value value = 0;

    for (size_t i = 0; i < 16; i++)
        value = value << 8 | (uint8_t)(i < strlen(name) ? name[i] : 0);
    return value;
}

/// Protocols that a rule's matches require; they are fixed for a rule, so that its matches don't
/// exclude each other.
struct kind {
    bool ipv6;
    bool udp;
};

/// Text that is being written, with the end of its buffer.
struct text {
    char *at;
    char *end;
};

#define WRITE(text, ...)                                                                           \
    do {                                                                                           \
        (text)->at += snprintf((text)->at, (size_t)((text)->end - (text)->at), __VA_ARGS__);       \
        if ((text)->at >= (text)->end)                                                             \
            abort();                                                                               \
    } while (0)

static void port_match(struct random *random, struct kind kind, struct text *text) {
    const char *protocol = kind.udp ? "udp" : "tcp";
    const uint32_t port = random_below(random, PORTS);

    switch (random_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        WRITE(text, "%s dport %u ", protocol, port);
        break;
    case 3:
        WRITE(text, "%s dport %u-%u ", protocol, port, port + random_below(random, 8));
        break;
    case 4:
        WRITE(text, "%s dport { %u, %u, %u-%u } ", protocol, port, port + 70, port + 2, port + 4);
        break;
    case 5:
        WRITE(text, "%s sport != %u ", protocol, port);
        break;
    case 6:
        WRITE(text, "th dport >= %u ", port);
        break;
    default:
        WRITE(text, "%s sport < %u ", protocol, port);
    }
}

static void address_match(struct random *random, struct kind kind, struct text *text) {
    const char *family = kind.ipv6 ? "ip6" : "ip";
    char first[32];

    snprintf(first, sizeof first, kind.ipv6 ? "2001:db8::%x" : "10.0.0.%u",
             random_below(random, ADDRESSES));
    switch (random_below(random, 9)) {
    case 7:
    case 8:
        WRITE(text, kind.ipv6 ? "ip6 saddr & ::7 == ::%x " : "ip saddr & 0.0.0.7 == 0.0.0.%u ",
              random_below(random, 8));
        break;
    case 0:
    case 1:
    case 2:
        WRITE(text, "%s saddr %s ", family, first);
        break;
    case 3:
        WRITE(text, "%s saddr %s/%d ", family, first, kind.ipv6 ? 124 : 29);
        break;
    case 4:
        WRITE(text, "%s saddr != %s ", family, first);
        break;
    case 5:
        WRITE(text, "%s saddr @%s ", family, kind.ipv6 ? "six" : "four");
        break;
    default:
        if (kind.ipv6)
            WRITE(text, "ip6 hoplimit %u ", random_below(random, 4));
        else
            WRITE(text, "ip daddr { %s, 10.0.1.0/24 } ", first);
    }
}

static void other_match(struct random *random, struct kind kind, struct text *text) {
    const uint32_t which = random_below(random, 9);

    if (which == 0)
        WRITE(text, "meta mark %u ", random_below(random, MARKS));
    else if (which == 1)
        WRITE(text, "meta mark & 3 == %u ", random_below(random, 4));
    else if (which == 2)
        WRITE(text, "iifname \"eth%u\" ", random_below(random, 4));
    else if (which == 3)
        WRITE(text, "iifname \"eth*\" ");
    else if (which == 4)
        WRITE(text, "iif eth%u ", random_below(random, 4));
    else if (which == 5)
        WRITE(text, "meta length 40-%u ", 50 + random_below(random, 20));
    else if (which == 6 && !kind.udp)
        WRITE(text, "tcp flags & (syn | ack) == syn ");
    else if (which == 7 && !kind.udp && !kind.ipv6)
        WRITE(text, "ip saddr . tcp dport @both ");
    else if (which == 8 && !kind.ipv6)
        WRITE(text, "ip saddr . meta l4proto { 10.0.0.%u . tcp, 10.0.0.0/28 . udp } ",
              random_below(random, ADDRESSES));
    else
        WRITE(text, "ct state new,established ");
}

static void effect(struct random *random, struct text *text) {
    switch (random_below(random, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        WRITE(text, "counter ");
        break;
    case 6:
        WRITE(text, "limit rate 4/second burst 3 packets ");
        break;
    case 7:
        WRITE(text, "limit rate over 500 bytes/second ");
        break;
    case 8:
        WRITE(text, "quota over %u bytes ", 500 * (1 + random_below(random, 9)));
        break;
    case 9:
        WRITE(text, "meta mark set %u ", random_below(random, MARKS));
        break;
    case 10:
        WRITE(text, "meta mark set meta mark & 5 ^ 2 ");
        break;
    default:
        WRITE(text, "log ");
    }
}

/// Writes a rule's last statement: a verdict, a reject, a verdict map, or a mark from a map.
/// - chain: number of the rule's chain; jumps lead to chains with higher numbers.
static void verdict(struct random *random, uint32_t chain, struct kind kind, struct text *text) {
    const uint32_t next = chain + 1 + random_below(random, 2);
    const uint32_t to = next < CHAINS - 1 ? next : CHAINS - 1;
    const bool may_jump = chain + 1 < CHAINS;
    const uint32_t which = random_below(random, 14);

    if (which <= 2)
        WRITE(text, "accept");
    else if (which <= 5)
        WRITE(text, "drop");
    else if (which == 6)
        WRITE(text, "return");
    else if ((which == 7 || which == 9) && may_jump)
        WRITE(text, "jump c%u", to);
    else if (which == 8 && may_jump)
        WRITE(text, "goto c%u", to);
    else if (which == 10)
        WRITE(text, "reject");
    else if (which == 11 && !kind.udp)
        WRITE(text, "tcp dport vmap @ports");
    else if (which == 12 && !kind.udp)
        WRITE(text, "reject with tcp reset");
    else if (which == 13 && kind.udp)
        WRITE(text, "meta mark set udp dport map @marks");
    else
        WRITE(text, "continue");
}

/// Writes a rule.
/// - favourite: kind of match of most rules in its chain: 0 = port, 1 = address, 2 = other.
static void rule(struct random *random, uint32_t chain, uint32_t favourite, struct text *text) {
    struct kind kind;
    uint32_t effects;

    kind.ipv6 = random_below(random, 4) == 0;
    kind.udp = random_below(random, 4) == 0;
    WRITE(text, "\t\t");
    if (random_below(random, 10) == 0)
        WRITE(text, "counter ");
    switch (random_below(random, 8) > 0 ? favourite : random_below(random, 3)) {
    case 0:
        port_match(random, kind, text);
        break;
    case 1:
        address_match(random, kind, text);
        break;
    default:
        other_match(random, kind, text);
    }
    switch (random_below(random, 8)) {
    case 0:
        port_match(random, kind, text);
        break;
    case 1:
        address_match(random, kind, text);
        break;
    case 2:
        other_match(random, kind, text);
        break;
    default:
        break;
    }
    effects = random_below(random, 3);
    for (uint32_t i = 0; i < effects; i++)
        effect(random, text);
    verdict(random, chain, kind, text);
    WRITE(text, "\n");
}

static void sets(struct random *random, struct text *text) {
    static const char *const verdicts[] = {"accept", "drop", "return", "jump c3", "continue"};
    uint32_t count;

    WRITE(text, "\tset four {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\tauto-merge\n"
                "\t\telements = { 10.0.0.0/30");
    count = random_below(random, 10);
    for (uint32_t i = 0; i < count; i++)
        WRITE(text, ", 10.0.0.%u", random_below(random, ADDRESSES));
    WRITE(text, " }\n\t}\n\tset six {\n\t\ttype ipv6_addr\n\t\tflags interval\n\t\tauto-merge\n"
                "\t\telements = { 2001:db8::4/126");
    count = random_below(random, 10);
    for (uint32_t i = 0; i < count; i++)
        WRITE(text, ", 2001:db8::%x", random_below(random, ADDRESSES));
    WRITE(text, " }\n\t}\n\tset both {\n\t\ttype ipv4_addr . inet_service\n\t\tflags interval\n"
                "\t\telements = { 10.0.0.63 . 1");
    count = random_below(random, ADDRESSES);
    for (uint32_t host = 0; host < count; host++) {
        const uint32_t port = random_below(random, PORTS);
        const uint32_t more = random_below(random, 3) * 5;

        WRITE(text, ", 10.0.0.%u . %u-%u", host, port, port + more);
    }
    WRITE(text, " }\n\t}\n\tmap ports {\n\t\ttype inet_service : verdict\n"
                "\t\telements = { 99 : accept");
    count = random_below(random, PORTS);
    for (uint32_t port = 0; port < count; port++)
        WRITE(text, ", %u : %s", port, verdicts[random_below(random, 5)]);
    WRITE(text, " }\n\t}\n\tmap marks {\n\t\ttype inet_service : mark\n"
                "\t\telements = { 99 : 1");
    count = random_below(random, PORTS);
    for (uint32_t port = 0; port < count; port++)
        WRITE(text, ", %u : %u", port, random_below(random, MARKS));
    WRITE(text, " }\n\t}\n");
}

static void chain(struct random *random, uint32_t number, struct text *text) {
    const uint32_t favourite = random_below(random, 3);
    const uint32_t rules = random_below(random, 90);

    for (uint32_t i = 0; i < rules; i++)
        rule(random, number, favourite, text);
    WRITE(text, "\t}\n");
}

void engine_policy_text(struct random *random, char text[static ENGINE_TEXT_BYTES]) {
    struct text out = {text, text + ENGINE_TEXT_BYTES};

    WRITE(&out, "table inet filter {\n");
    sets(random, &out);
    WRITE(&out, "\tchain c3 {\n\t\tip saddr 10.0.0.7 counter drop\n\t\tcounter\n\t}\n");
    for (uint32_t number = 0; number < CHAINS - 1; number++) {
        WRITE(&out, "\tchain c%u {\n", number);
        if (number == 0)
            WRITE(&out, "\t\ttype filter hook input priority 0; policy drop;\n");
        chain(random, number, &out);
    }
    WRITE(&out, "\tchain late {\n\t\ttype filter hook input priority 10; policy accept;\n"
                "\t\tcounter\n\t\tmeta mark 3 drop\n\t}\n}\n");
}

uint32_t engine_packet_bytes(struct random *random, uint8_t bytes[static ENGINE_PACKET_BYTES]) {
    static const uint8_t protocols[] = {6, 6, 17, 1}, all_flags[] = {2, 16, 18};
    const bool ipv6 = random_below(random, 4) == 0;
    const uint8_t protocol = protocols[random_below(random, 4)];
    const uint8_t host = (uint8_t)random_below(random, ADDRESSES);
    const uint8_t sport = (uint8_t)random_below(random, PORTS);
    const uint8_t dport = (uint8_t)random_below(random, PORTS);
    const uint8_t flags = all_flags[random_below(random, 3)];
    // The TCP header; in UDP the bytes 4 to 7 are length and checksum.
    const uint8_t transport[] = {0, sport, 0,    dport, 0, 20, 0, 0, 0, 0,
                                 0, 0,     0x50, flags, 0, 0,  0, 0, 0, 0};
    uint32_t count;

    if (ipv6) {
        const uint8_t hops = (uint8_t)random_below(random, 4);
        const uint8_t ip[] = {0x60, 0,    0, 0,    0,    20,   protocol, hops, 0x20, 0x01,
                              0x0d, 0xb8, 0, 0,    0,    0,    0,        0,    0,    0,
                              0,    0,    0, host, 0x20, 0x01, 0x0d,     0xb8, 0,    0,
                              0,    0,    0, 0,    0,    0,    0,        0,    0,    1};

        memcpy(bytes, ip, sizeof ip);
        count = sizeof ip;
    } else {
        const uint8_t ip[] = {0x45, 0, 0,  40, 0, 0,    0x40, 0, 64, protocol,
                              0,    0, 10, 0,  0, host, 10,   0, 1,  1};

        memcpy(bytes, ip, sizeof ip);
        count = sizeof ip;
    }
    memcpy(bytes + count, transport, sizeof transport);
    return count + sizeof transport;
}
