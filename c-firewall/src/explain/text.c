// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain/describe.h"
#include "options/daemon.h"

enum {
    STEP = 2, // number of columns per level of indentation
    // Number of levels by which a chain is indented more than the chain from which a rule led to
    // it.
    STEPS_OF_A_JUMP = 2,
};

#define NS_PER_US 1000

static void put_why(FILE *out, const struct explain *explain, const struct decide_step *step) {
    describe_rule_text(out, &explain->policy, step->place);
    if (step->why == DECIDE_HELD)
        return;
    fputs(" | ", out);
    describe_why(out, &explain->policy, step, &explain->shown, explain_interface, (void *)explain);
}

/// Returns the word that shows whether a rule matched: "yes", "no", or "may" if that depends on an
/// unknown value.
static const char *matched(const struct decide_step *step) {
    if (step->may)
        return "may";
    return step->why == DECIDE_HELD ? "yes" : "no";
}

static void put_item(FILE *out, const struct explain *explain, const struct trace_item *item,
                     int width) {
    const int indent = STEP + (int)item->depth * STEP * STEPS_OF_A_JUMP;

    if (item->is_chain) {
        fprintf(out, "%*schain ", indent, "");
        describe_chain(out, &explain->policy, item->step.place);
    } else {
        fprintf(out, "%*s", indent + STEP, "");
        describe_place_padded(out, &explain->policy, item->step.place, width);
        fprintf(out, "  %-3s  ", matched(&item->step));
        put_why(out, explain, &item->step);
    }
    putc('\n', out);
}

static void put_trace(FILE *out, const struct explain *explain) {
    const struct trace *trace = &explain->trace;
    int width = 0;

    for (size_t i = 0; i < trace->count; i++)
        if (!trace->items[i].is_chain) {
            const int own = describe_place_width(&explain->policy, trace->items[i].step.place);

            width = own > width ? own : width;
        }
    for (size_t i = 0; i < trace->count; i++)
        put_item(out, explain, &trace->items[i], width);
}

static void put_fail(FILE *out, const struct explain *explain) {
    enum options_situation situation = OPTIONS_MALFORMED;

    fprintf(out, "%s: ", verdict_name(explain->outcome.verdict));
    if (explain->outcome.undecidable) {
        situation = OPTIONS_TRUNCATED;
        fputs("the bytes that the policy reads were not copied", out);
    } else if (explain->outcome.undecided) {
        situation = OPTIONS_UNKNOWN;
        fputs("the name that the policy reads can't be read", out);
    } else {
        fprintf(out, "malformed (%s)", packet_status_name(explain->status));
    }
    fprintf(out, ", --fail %s", options_mode_name(explain->options.fail_open[situation]));
}

static void put_by(FILE *out, const struct explain *explain) {
    const struct compiled *compiled = explain->daemon.compiled;
    const struct decide_outcome *outcome = &explain->outcome;

    switch (outcome->by) {
    case DECIDE_BY_RULE:
        fputs(" by ", out);
        describe_place(out, &explain->policy, compile_rule_at(compiled, outcome->rule));
        break;
    case DECIDE_BY_POLICY:
        fputs(" by the policy of chain ", out);
        describe_chain(out, &explain->policy, compile_chain_at(compiled, outcome->chain));
        break;
    case DECIDE_BY_DEFAULT:
        fputs(" by --default", out);
        break;
    case DECIDE_BY_UNDECIDED:
        fputs(" by --undecided", out);
        break;
    case DECIDE_BY_CONNECTION:
        fputs(": its connection was refused", out);
        break;
    case DECIDE_BY_FAIL:
        break;
    }
}

static void put_verdict(FILE *out, const struct explain *explain) {
    const struct decide_outcome *outcome = &explain->outcome;

    fputs("  ", out);
    if (outcome->by == DECIDE_BY_FAIL)
        put_fail(out, explain);
    else
        fputs(verdict_name(outcome->verdict), out);
    if (outcome->verdict == VERDICT_REJECT && explain->has_reply) {
        fputs(" with ", out);
        describe_reply(out, &outcome->reject, explain->packet.version);
    } else if (outcome->verdict == VERDICT_REJECT) {
        fputs(" without a reply", out);
    }
    put_by(out, explain);
    if (outcome->mark_set)
        fprintf(out, ", mark 0x%08x", outcome->mark);
    putc('\n', out);
}

/// Prints the verdict that the capture records for the packet, if the policy's verdict differs from
/// it.
static void put_recorded(FILE *out, const struct explain *explain) {
    if (explain_differs(explain))
        fprintf(out, "  recorded otherwise: %s\n", verdict_name(explain->recorded));
}

static void put_miss(FILE *out, const struct explain *explain) {
    const struct trace_item *miss =
        trace_nearest_miss(&explain->trace, &explain->policy, explain->outcome.verdict);

    if (!miss)
        return;
    fputs("  nearest miss ", out);
    describe_place(out, &explain->policy, miss->step.place);
    fputs(": ", out);
    put_why(out, explain, &miss->step);
    putc('\n', out);
}

void explain_text_packet(FILE *out, const struct explain *explain) {
    const uint64_t time_us = (uint64_t)llabs(explain->time_ns) / NS_PER_US;

    fprintf(out, "packet %" PRIu64 " at %s%" PRIu64 ".%06" PRIu64 ": ", explain->number,
            explain->time_ns < 0 ? "-" : "", time_us / 1000000, time_us % 1000000);
    describe_packet(out, &explain->packet, explain->status);
    putc('\n', out);
    put_trace(out, explain);
    put_verdict(out, explain);
    put_recorded(out, explain);
    put_miss(out, explain);
}

static void put_counters(FILE *out, const struct explain *explain) {
    const uint32_t counters = compile_counters(explain->daemon.compiled);
    struct flow_counter figures;
    int width = 0;

    for (uint32_t i = 0; i < counters; i++) {
        const int own =
            describe_place_width(&explain->policy, explain_counter(explain, i, &figures));

        width = own > width ? own : width;
    }
    if (counters > 0)
        fputs("counters\n", out);
    for (uint32_t i = 0; i < counters; i++) {
        const struct compile_place place = explain_counter(explain, i, &figures);

        fputs("  ", out);
        describe_place_padded(out, &explain->policy, place, width);
        fprintf(out, "  packets %" PRIu64 " bytes %" PRIu64 "  ", figures.packets, figures.bytes);
        describe_rule_text(out, &explain->policy, place);
        putc('\n', out);
    }
}

void explain_text_end(FILE *out, const struct explain *explain) {
    const struct explain_sums *sums = &explain->sums;

    put_counters(out, explain);
    fprintf(out,
            "%" PRIu64 " packets: %" PRIu64 " accepted, %" PRIu64 " dropped, %" PRIu64
            " rejected\n",
            sums->packets, sums->accepted, sums->dropped, sums->rejected);
    if (explain->skipped > 0)
        fprintf(out, "skipped %" PRIu64 " frames that are not IP\n", explain->skipped);
    if (sums->recorded > 0)
        fprintf(out, "recorded verdicts: %" PRIu64 ", %" PRIu64 " different\n", sums->recorded,
                sums->different);
    if (sums->damaged > 0)
        fprintf(out, "damaged comments: %" PRIu64 ": the options replace them\n", sums->damaged);
}
