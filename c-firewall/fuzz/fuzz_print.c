// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of the output about a packet: its lines of events, and the output of `explain` as text and
// as JSON. Input: the packet's metadata, an arbitrary outcome, then the packet. The policy is
// tests/corpus/vectors/printed.nft. With TWINWALL_LINES set, prints the output for each input, to
// be compared with the Rust twin's.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/flow.h"
#include "engine/hostnames.h"
#include "engine/interface.h"
#include "events/text.h"
#include "explain/json.h"
#include "explain/text.h"
#include "explain/types.h"
#include "policy/parse/parse.h"
#include "worker/event.h"

static const char RULES[] =
#include "printed.inc"
    ;

enum { ICMPX_CODES = 4 };

static void must(int condition) {
    if (!condition)
        abort();
}

/// Bytes of the input that have not been read.
struct facts {
    const uint8_t *at;
    size_t left;
};

/// Reads a little-endian number; missing bytes are 0.
static uint64_t take(struct facts *facts, unsigned bytes) {
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes && facts->left > 0; i++, facts->at++, facts->left--)
        number |= (uint64_t)*facts->at << 8 * i;
    return number;
}

static void take_bytes(struct facts *facts, uint8_t *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)take(facts, 1);
}

/// Policy, and data about the current packet.
struct printed {
    struct explain explain;
    struct decide_settings settings;
    struct decide_input input;
    struct packet parsed;
    uint64_t time_ns;
    uint32_t generation;
    uint16_t queue;
    uint16_t ethertype;
    bool has_names;
    bool answers; // true if a rejected packet gets a reply
};

static struct printed *load(void) {
    struct printed *printed = calloc(1, sizeof *printed);
    struct explain *explain = &printed->explain;
    const struct compile_settings settings = {
        .linear = true, .interface_index = indexes_add, .context = &explain->indexes};
    struct failure failure;

    must(parse_text("t", (const uint8_t *)RULES, strlen(RULES), &explain->policy, &failure) == 0);
    must(compile_policy(&explain->policy, &settings, &explain->daemon.compiled, &failure) == 0);
    must(flow_make(&explain->daemon.flow, explain->daemon.compiled) == 0);
    must(flow_counters_make(&explain->daemon.counters, explain->daemon.compiled) == 0);
    return printed;
}

static void take_names(struct facts *facts, struct names *names) {
    *names = (struct names){0};
    names->state = (enum names_state)(take(facts, 1) % (NAMES_UNREADABLE + 1));
    names->protocol = (enum names_protocol)(take(facts, 1) % (NAMES_DNS + 1));
    names->ech = take(facts, 1) % 2;
    names->version = (uint16_t)take(facts, 2);
    names->dns_type = (uint16_t)take(facts, 2);
    names->host_length = (uint8_t)(take(facts, 1) % (NAMES_HOST_BYTES + 1));
    names->alpn_length = (uint8_t)take(facts, 1);
    names->method_length = (uint8_t)(take(facts, 1) % (NAMES_METHOD_BYTES + 1));
    take_bytes(facts, names->host, names->host_length);
    take_bytes(facts, names->alpn, names->alpn_length);
    take_bytes(facts, names->method, names->method_length);
}

static void take_options(struct facts *facts, struct printed *printed) {
    const uint64_t bits = take(facts, 2);
    struct explain *explain = &printed->explain;

    printed->settings = (struct decide_settings){
        .default_verdict = bits & 1 ? VERDICT_ACCEPT : VERDICT_DROP,
        .malformed_open = bits & 2,
        .truncated_open = bits & 4,
        .malformed_by_policy = bits & 8,
        .undecided_verdict = bits & 16 ? VERDICT_ACCEPT : VERDICT_DROP,
        .unknown_open = bits & 32,
    };
    printed->input = (struct decide_input){
        .truncated = bits & 64,
        .has_uid = bits & 128,
        .has_gid = bits & 256,
        .has_ct_state = bits & 512,
        .has_ct_mark = bits & 1024,
        .refused = bits & 2048,
    };
    printed->has_names = bits & 4096;
    printed->answers = bits & 8192;
    explain->has_recorded = bits & 16384;
    explain->recorded = bits & 32768 ? VERDICT_ACCEPT : VERDICT_DROP;
}

/// Reads a packet's metadata into `printed`: the kernel's metadata, the names, and the packet's
/// number in the capture.
static void take_packet(struct facts *facts, struct printed *printed) {
    static const uint8_t families[] = {0, 2, 10};
    struct explain *explain = &printed->explain;
    struct decide_input *input = &printed->input;
    struct options_facts *known = &explain->facts;

    input->hook = (uint8_t)(take(facts, 1) % (POLICY_HOOK_COUNT + 1));
    input->nfproto = families[take(facts, 1) % 3];
    printed->ethertype = (uint16_t)take(facts, 2);
    printed->queue = (uint16_t)take(facts, 2);
    printed->generation = (uint32_t)take(facts, 4);
    printed->time_ns = take(facts, 8) >> 1;
    input->length = (uint32_t)take(facts, 4);
    input->mark = (uint32_t)take(facts, 4);
    input->uid = (uint32_t)take(facts, 4);
    input->gid = (uint32_t)take(facts, 4);
    input->ct_state = (uint32_t)take(facts, 4);
    input->ct_mark = (uint32_t)take(facts, 4);
    *known = (struct options_facts){0};
    take_bytes(facts, (uint8_t *)known->iif, sizeof known->iif - 1);
    take_bytes(facts, (uint8_t *)known->oif, sizeof known->oif - 1);
    input->iif = indexes_iif(&explain->indexes, known->iif);
    input->oif = indexes_oif(&explain->indexes, known->oif, known->iif);
    input->iifname = interface_value(known->iif);
    input->oifname = interface_value(known->oif);
    take_names(facts, &explain->shown);
    explain->number = take(facts, 4);
    explain->time_ns = (int64_t)printed->time_ns;
}

/// Reads an arbitrary outcome.
/// - logs: number of log statements in the policy.
static void take_outcome(struct facts *facts, struct decide_outcome *outcome, uint32_t logs) {
    outcome->verdict = (enum verdict)(take(facts, 1) % (VERDICT_REJECT + 1));
    outcome->by = (enum decide_by)(take(facts, 1) % (DECIDE_BY_CONNECTION + 1));
    outcome->mark_set = take(facts, 1) % 2;
    outcome->mark = (uint32_t)take(facts, 4);
    outcome->reject.kind = (enum policy_reject_kind)(take(facts, 1) % (POLICY_REJECT_ICMPX + 1));
    outcome->reject.code = (uint8_t)take(facts, 1);
    if (outcome->reject.kind == POLICY_REJECT_ICMPX)
        outcome->reject.code %= ICMPX_CODES;
    outcome->undecidable = take(facts, 1) % 2;
    outcome->undecided = take(facts, 1) % 2;
    outcome->log_count = (uint32_t)take(facts, 1) % (DECIDE_LOGS_MAX + 1);
    for (uint32_t i = 0; i < outcome->log_count; i++)
        outcome->logs[i] = (uint32_t)take(facts, 1) % logs;
}

/// Returns the event of the current packet.
static struct event event_of(const struct printed *printed) {
    struct event_bell bell = {.fd = -1};
    struct event_ring ring;
    struct event event;

    must(event_ring_make(&ring, printed->queue, &bell) == 0);
    event_note(&ring, printed->generation, printed->ethertype, &printed->input,
               &printed->explain.outcome);
    event = *event_peek(&ring);
    event.time_ns = printed->time_ns;
    event_ring_free(&ring);
    return event;
}

static void put_line(FILE *out, char *line) {
    must(line != NULL);
    fputs(line, out);
    free(line);
}

/// Prints all output about a packet: its lines of events, and the output of `explain` as JSON and
/// as text.
static void print(FILE *out, struct printed *printed) {
    struct explain *explain = &printed->explain;
    const struct event event = event_of(printed);
    const struct event_text text = {
        .event = &event,
        .policy = &explain->policy,
        .compiled = explain->daemon.compiled,
        .iifname = explain->facts.iif,
        .oifname = explain->facts.oif,
    };

    explain->has_reply = printed->answers && explain->outcome.verdict == VERDICT_REJECT;
    put_line(out, events_text_packet(&text, false));
    put_line(out, events_text_packet(&text, true));
    for (uint32_t i = 0; i < event.outcome.log_count && i < DECIDE_LOGS_MAX; i++)
        put_line(out, events_text_log(&text, i));
    explain_json_packet(out, explain);
    explain_text_packet(out, explain);
}

/// Decides the current packet by the policy, and stores the outcome and the trace of the decision
/// in `printed`.
static void decide_on(struct printed *printed) {
    struct explain *explain = &printed->explain;
    struct explain_engine *engine = &explain->daemon;
    struct decide_input *input = &printed->input;
    const struct decide_recorder recorder = trace_recorder(&explain->trace);

    if (printed->has_names) {
        input->names = &explain->shown;
        hostnames_resolve(&engine->compiled->hosts, &explain->shown, &input->host_number,
                          &input->alpn_bits);
    }
    trace_clear(&explain->trace);
    decide_trace(&printed->settings, engine->compiled, &engine->flow, &engine->counters, input,
                 &explain->outcome, &recorder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct printed *printed;
    struct facts facts = {data, size};
    struct decide_outcome odd = {0};
    struct explain *explain;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    must(out != NULL);
    if (!printed)
        printed = load();
    explain = &printed->explain;
    take_options(&facts, printed);
    take_packet(&facts, printed);
    take_outcome(&facts, &odd, compile_logs(explain->daemon.compiled));
    explain->status =
        packet_parse(facts.at, (uint32_t)facts.left, (uint32_t)facts.left, &explain->packet);
    printed->parsed = explain->packet;
    printed->input.packet = &printed->parsed;
    printed->input.status = explain->status;
    decide_on(printed);
    print(out, printed);
    odd.rule = explain->outcome.rule;
    odd.chain = explain->outcome.chain;
    explain->outcome = odd;
    print(out, printed);
    fclose(out);
    if (getenv("TWINWALL_LINES"))
        fputs(text, stdout);
    free(text);
    return 0;
}
