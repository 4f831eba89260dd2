// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/contract.h"

#include <inttypes.h>

#include "options/daemon.h"

#define FIGURES_FILE "/proc/net/netfilter/nfnetlink_queue"

/// Returns the further effect of the kernel's rules on a packet that passes without a class
/// (--stage), as text. The text is empty without --stage, or if the packet does not pass.
/// - is_open: true if the packet passes.
static const char *without_class(const struct options *options, bool is_open) {
    return is_open && options->stage != 0
               ? "; then dropped by the kernel's rules, unless split with --bypass or "
                 "--unknown-open"
               : "";
}

static void put_overload(FILE *out, const struct options *options,
                         const struct contract_facts *facts) {
    const bool open = options->fail_open[OPTIONS_OVERLOAD];

    fprintf(out, "%s if the socket's %u bytes are full, %s if %u packets wait%s",
            open ? "passes unseen: counted as unseen" : "dropped: counted as user drop",
            facts->receive_buffer, open ? "by nobody" : "as queue full", options->queue_length,
            without_class(options, open));
}

static const char *accepted_or_dropped(const struct options *options,
                                       enum options_situation situation) {
    return options->fail_open[situation] ? "accepted" : "dropped";
}

static void put_stall(FILE *out, const struct options *options,
                      const struct contract_facts *facts) {
    if (options->deadline_ms == 0)
        fputs("waits for ever: --deadline is 0", out);
    else if (!facts->figures)
        fputs("waits for ever: " FIGURES_FILE " can't be read", out);
    else if (!facts->guard)
        fputs("waits for ever: the guard has ended", out);
    else
        fprintf(out, "%s by the guard when none was answered for %u ms%s",
                accepted_or_dropped(options, OPTIONS_STALL), options->deadline_ms,
                without_class(options, options->fail_open[OPTIONS_STALL]));
}

/// Writes the effect of the queue rules while no process owns the queue.
static void put_rules(FILE *out, const struct options *options,
                      const struct queue_rules *queue_rules) {
    const char *const unknown = queue_rules->unknown;

    if (queue_rules->plain && queue_rules->bypass)
        fputs("rules with a bypass let packets pass, others drop them", out);
    else if (queue_rules->plain)
        fputs("the rules drop packets: they have no bypass", out);
    else if (queue_rules->bypass && options->stage != 0)
        fputs("names are not known yet: the rules have a bypass", out);
    else if (queue_rules->bypass)
        fputs("packets pass: the rules have a bypass", out);
    else if (*unknown)
        fputs("the rules decide", out);
    else
        fputs("the rules decide, of which there is none for this queue yet", out);
    if (*unknown)
        fprintf(out, ", as far as can be known: %s", unknown);
}

static void put_crash(FILE *out, const struct options *options,
                      const struct queue_rules *queue_rules, const struct contract_facts *facts) {
    if (options->fail_open[OPTIONS_CRASH]) {
        if (facts->guard) {
            fprintf(out, "the guard accepts everything until SIGTERM or the next start%s",
                    without_class(options, true));
            return;
        }
        fputs("the guard has ended: ", out);
    }
    fputs("waiting packets are dropped, then ", out);
    put_rules(out, options, queue_rules);
}

static void put_malformed(FILE *out, const struct options *options) {
    if (options->malformed_by_policy)
        fputs("the policy decides: --malformed policy", out);
    else
        fprintf(out, "%s, counted by reason, as far as the first %u bytes show%s",
                accepted_or_dropped(options, OPTIONS_MALFORMED), options->copy_bytes,
                without_class(options, options->fail_open[OPTIONS_MALFORMED]));
}

static void put_truncated(FILE *out, const struct options *options) {
    fprintf(out, "%s, counted as truncated%s%s", accepted_or_dropped(options, OPTIONS_TRUNCATED),
            options->policy ? " or undecidable" : "",
            without_class(options, options->fail_open[OPTIONS_TRUNCATED]));
}

static void put_unknown(FILE *out, const struct options *options) {
    const uint32_t bytes = options->undecided_bytes;

    if (!options->policy) {
        fputs("never: there is no policy", out);
        return;
    }
    // --fail unknown and the verdict of --undecided have no effect here: the kernel's rules decide
    // as they were split.
    if (options->stage != 0) {
        fprintf(out,
                "dropped at the kernel's first rule that reads it, as beyond %u undecided bytes "
                "each way, unless split with --unknown-open; before these bytes as split with "
                "--undecided",
                bytes);
        return;
    }
    fprintf(out, "%s at the first rule that reads it",
            accepted_or_dropped(options, OPTIONS_UNKNOWN));
    if (options->undecided_verdict == VERDICT_ACCEPT)
        fprintf(out, ", as beyond %u undecided bytes each way", bytes);
}

static void put_really(FILE *out, enum options_situation situation, const struct options *options,
                       const struct queue_rules *queue_rules, const struct contract_facts *facts) {
    switch (situation) {
    case OPTIONS_OVERLOAD:
        put_overload(out, options, facts);
        break;
    case OPTIONS_STALL:
        put_stall(out, options, facts);
        break;
    case OPTIONS_CRASH:
        put_crash(out, options, queue_rules, facts);
        break;
    case OPTIONS_MALFORMED:
        put_malformed(out, options);
        break;
    case OPTIONS_TRUNCATED:
        put_truncated(out, options);
        break;
    default:
        put_unknown(out, options);
        break;
    }
}

void contract_make(const struct options *options, const struct queue_rules *queue_rules,
                   const struct contract_facts *facts, struct contract *contract) {
    *contract = (struct contract){0};
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++) {
        struct contract_row *row = &contract->rows[i];
        FILE *out = fmemopen(row->really, sizeof row->really, "w");

        row->situation = (enum options_situation)i;
        row->open = options->fail_open[i];
        if (!out)
            continue;
        put_really(out, row->situation, options, queue_rules, facts);
        fclose(out);
    }
}

void contract_print(FILE *out, const struct contract *contract) {
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++) {
        const struct contract_row *row = &contract->rows[i];

        fprintf(out, "  %-9s  %-6s  %s\n", options_situation_name(row->situation),
                options_mode_name(row->open), row->really);
    }
}

json_t *contract_array(const struct contract *contract) {
    json_t *array = json_array();

    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++) {
        const struct contract_row *row = &contract->rows[i];
        json_t *object = json_object();

        json_object_set_new(object, "situation",
                            json_string(options_situation_name(row->situation)));
        json_object_set_new(object, "mode", json_string(options_mode_name(row->open)));
        json_object_set_new(object, "really", json_string(row->really));
        json_array_append_new(array, object);
    }
    return array;
}
