// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "explain/describe.h"

/// Prints a text as a JSON string (RFC 8259 section 7).
static void put_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;

        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            putc(byte, out);
    }
    putc('"', out);
}

/// Text that becomes a JSON string: it is printed to the memory stream `out`, then string_end
/// prints it as a JSON string.
struct string {
    FILE *out;
    char *text;
    size_t length;
};

static bool string_begin(struct string *string) {
    string->text = NULL;
    string->out = open_memstream(&string->text, &string->length);
    return string->out;
}

static void string_end(struct string *string, FILE *out) {
    fclose(string->out);
    put_string(out, string->text ? string->text : "");
    free(string->text);
}

static void put_place(FILE *out, const struct explain *explain, struct compile_place place) {
    struct string string;

    if (!string_begin(&string))
        return;
    describe_place(string.out, &explain->policy, place);
    string_end(&string, out);
}

/// Prints a JSON string: `before`, then family, table and name of a chain.
/// - place: position of the chain, or of a rule in the chain.
static void put_chain(FILE *out, const struct explain *explain, struct compile_place place,
                      const char *before) {
    struct string string;

    if (!string_begin(&string))
        return;
    fputs(before, string.out);
    describe_chain(string.out, &explain->policy, place);
    string_end(&string, out);
}

static void put_why(FILE *out, const struct explain *explain, const struct decide_step *step) {
    struct string string;

    if (step->why == DECIDE_HELD) {
        fputs("null", out);
        return;
    }
    if (!string_begin(&string))
        return;
    describe_why(string.out, &explain->policy, step, &explain->shown, explain_interface,
                 (void *)explain);
    string_end(&string, out);
}

static void put_reply(FILE *out, const struct explain *explain) {
    struct string string;

    if (!explain->has_reply) {
        fputs("null", out);
        return;
    }
    if (!string_begin(&string))
        return;
    describe_reply(string.out, &explain->outcome.reject, explain->packet.version);
    string_end(&string, out);
}

static void put_by(FILE *out, const struct explain *explain) {
    const struct compiled *compiled = explain->daemon.compiled;
    const struct decide_outcome *outcome = &explain->outcome;

    switch (outcome->by) {
    case DECIDE_BY_RULE:
        put_place(out, explain, compile_rule_at(compiled, outcome->rule));
        break;
    case DECIDE_BY_POLICY:
        put_chain(out, explain, compile_chain_at(compiled, outcome->chain), "policy ");
        break;
    case DECIDE_BY_DEFAULT:
        fputs("\"default\"", out);
        break;
    case DECIDE_BY_FAIL:
        fputs("\"fail\"", out);
        break;
    case DECIDE_BY_UNDECIDED:
        fputs("\"undecided\"", out);
        break;
    case DECIDE_BY_CONNECTION:
        fputs("\"connection\"", out);
        break;
    }
}

static void put_rule(FILE *out, const struct explain *explain, const struct decide_step *step) {
    fputs("{\"rule\":", out);
    put_place(out, explain, step->place);
    fputs(",\"chain\":", out);
    put_chain(out, explain, step->place, "");
    fprintf(out, ",\"held\":%u,\"of\":%u,\"matched\":%s,\"why\":", step->place.statement,
            describe_rule(&explain->policy, step->place)->count,
            step->why == DECIDE_HELD ? "true" : "false");
    put_why(out, explain, step);
    putc('}', out);
}

static void put_rules(FILE *out, const struct explain *explain) {
    const struct trace *trace = &explain->trace;
    const char *separator = "";

    for (size_t i = 0; i < trace->count; i++) {
        if (trace->items[i].is_chain)
            continue;
        fputs(separator, out);
        put_rule(out, explain, &trace->items[i].step);
        separator = ",";
    }
}

static void put_recorded(FILE *out, const struct explain *explain) {
    if (explain->has_recorded)
        put_string(out, verdict_name(explain->recorded));
    else
        fputs("null", out);
}

void explain_json_packet(FILE *out, const struct explain *explain) {
    const struct decide_outcome *outcome = &explain->outcome;
    const uint64_t time_ns = (uint64_t)llabs(explain->time_ns);
    const struct trace_item *miss =
        trace_nearest_miss(&explain->trace, &explain->policy, outcome->verdict);

    fprintf(out, "{\"packet\":%" PRIu64 ",\"time\":%s%" PRIu64 ".%09" PRIu64 ",\"verdict\":\"%s\"",
            explain->number, explain->time_ns < 0 ? "-" : "", time_ns / 1000000000,
            time_ns % 1000000000, verdict_name(outcome->verdict));
    if (outcome->mark_set)
        fprintf(out, ",\"mark\":%u", outcome->mark);
    else
        fputs(",\"mark\":null", out);
    fputs(",\"reject\":", out);
    put_reply(out, explain);
    fputs(",\"by\":", out);
    put_by(out, explain);
    fprintf(out, ",\"status\":\"%s\",\"rules\":[", packet_status_name(explain->status));
    put_rules(out, explain);
    fputs("],\"nearest_miss\":", out);
    if (miss)
        put_place(out, explain, miss->step.place);
    else
        fputs("null", out);
    fputs(",\"recorded\":", out);
    put_recorded(out, explain);
    fputs("}\n", out);
}

void explain_json_end(FILE *out, const struct explain *explain) {
    const struct explain_sums *sums = &explain->sums;
    const uint32_t counters = compile_counters(explain->daemon.compiled);

    fputs("{\"counters\":[", out);
    for (uint32_t i = 0; i < counters; i++) {
        struct flow_counter figures;
        const struct compile_place place = explain_counter(explain, i, &figures);

        fputs(i > 0 ? ",{\"rule\":" : "{\"rule\":", out);
        put_place(out, explain, place);
        fprintf(out, ",\"statement\":%u,\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                place.statement, figures.packets, figures.bytes);
    }
    fprintf(out,
            "],\"packets\":%" PRIu64 ",\"accepted\":%" PRIu64 ",\"dropped\":%" PRIu64
            ",\"rejected\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"recorded\":%" PRIu64
            ",\"different\":%" PRIu64 ",\"damaged\":%" PRIu64 "}\n",
            sums->packets, sums->accepted, sums->dropped, sums->rejected, explain->skipped,
            sums->recorded, sums->different, sums->damaged);
}
