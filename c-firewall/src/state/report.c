// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/object.h"
#include "options/daemon.h"
#include "queue/proc.h"
#include "state/report_counters.h"
#include "state/report_policy.h"

static const char *const reason_names[] = {[REPORT_INTERVAL] = "interval",
                                           [REPORT_SIGNAL] = "signal",
                                           [REPORT_CONTROL] = "control",
                                           [REPORT_EXIT] = "exit"};

static void print_start(FILE *out, const struct options *options,
                        const struct requirement *requirement, uint32_t receive_buffer) {
    char fail[OPTIONS_FAIL_BYTES];

    fprintf(out, "ready: queue %u", options->queue_first);
    if (options->queue_last > options->queue_first)
        fprintf(out, ":%u", options->queue_last);
    fprintf(out,
            ", backend %s, profile %s, copy %u bytes, batch %u, receive buffer %u bytes, "
            "queue length %u, gso %s, spin ",
            options_backend_name(options->backend), options_profile_name(options->profile),
            options->copy_bytes, options->batch, receive_buffer, options->queue_length,
            options->gso ? "on" : "off");
    if (options->profile == OPTIONS_PAPER)
        fprintf(out, "always");
    else
        fprintf(out, "%u us", options->spin_us);
    fprintf(out, ", coalesce %u us, fail %s, default %s", options->coalesce_us,
            options_fail_text(options, fail), verdict_name(options->default_verdict));
    if (requirement)
        report_policy_print_start(out, options, requirement);
    fprintf(out, "\n");
}

/// Prints a ledger. The caller has already printed the start of its first line: the queue or
/// "total".
static void print_ledger(FILE *out, const struct ledger *ledger) {
    const struct stats *stats = &ledger->stats;

    fprintf(out, ": received %" PRIu64 " packets, %" PRIu64 " bytes\n  verdicts: ", stats->received,
            stats->bytes);
    for (int i = 0; i < VERDICT_COUNT; i++)
        fprintf(out, "%s%s %" PRIu64, i > 0 ? ", " : "", verdict_name((enum verdict)i),
                stats->verdicts[i]);
    fprintf(out, "; refused by the kernel %" PRIu64 "\n", stats->refused);
    report_counters_print_malformed(out, stats);
    fprintf(out, "  ");
    report_counters_print(out, stats, COUNTER_QUEUE);
    fprintf(out, ", stalled %" PRIu64 "\n", ledger->stalled);
    if (!ledger->known) {
        fprintf(out, "  kernel: unknown, " QUEUE_PROC_QUEUES
                     " can't be read\n  ledger: NOT RECONCILED, the losses are unknown\n");
        return;
    }
    fprintf(out,
            "  kernel: offered %" PRIu64 ", waiting %" PRIu64 ", queue full %" PRIu64
            ", user drop %" PRIu64 ", unseen %" PRIu64 "\n",
            ledger->offered, ledger->waiting, ledger->queue_full, ledger->user_drop,
            ledger->unseen);
    if (ledger->reconciled)
        fprintf(out, "  ledger: reconciled, lost %" PRIu64 " in the queue\n", ledger->lost);
    else
        fprintf(out,
                "  ledger: NOT RECONCILED, difference %" PRIu64 ", lost %" PRIu64 " in the queue\n",
                ledger->difference, ledger->lost);
}

static struct ledger sum_of(const struct ledger *ledgers, size_t count) {
    struct ledger sum = {.known = true, .reconciled = true};

    for (size_t i = 0; i < count; i++)
        ledger_add(&sum, &ledgers[i]);
    return sum;
}

static void print_ledgers(FILE *out, const struct ledger *ledgers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "queue %u", ledgers[i].number);
        print_ledger(out, &ledgers[i]);
    }
    if (count > 1) {
        const struct ledger sum = sum_of(ledgers, count);

        fprintf(out, "total");
        print_ledger(out, &sum);
    }
}

static json_t *start_object(const struct options *options, const struct requirement *requirement,
                            uint32_t receive_buffer, const struct contract *contract,
                            uint64_t time_ms) {
    json_t *object = json_object();
    json_t *queues = json_array();
    char fail[OPTIONS_FAIL_BYTES];

    for (unsigned int number = options->queue_first; number <= options->queue_last; number++)
        json_array_append_new(queues, json_integer(number));
    object_put_string(object, "event", "start");
    object_put_string(object, "program", OPTIONS_PROGRAM);
    object_put_string(object, "version", OPTIONS_VERSION);
    object_put_number(object, "time_ms", time_ms);
    object_put(object, "queues", queues);
    object_put_string(object, "backend", options_backend_name(options->backend));
    object_put_string(object, "profile", options_profile_name(options->profile));
    object_put_number(object, "copy_bytes", options->copy_bytes);
    object_put_number(object, "batch", options->batch);
    object_put_number(object, "receive_buffer", receive_buffer);
    object_put_number(object, "queue_length", options->queue_length);
    object_put_bool(object, "gso", options->gso);
    object_put(object, "spin_us",
               options->profile == OPTIONS_PAPER ? json_null() : json_integer(options->spin_us));
    object_put_number(object, "coalesce_us", options->coalesce_us);
    object_put_string(object, "fail", options_fail_text(options, fail));
    object_put_number(object, "deadline_ms", options->deadline_ms);
    object_put_string(object, "default", verdict_name(options->default_verdict));
    if (requirement)
        report_policy_put_start_object(object, options, requirement);
    object_put(object, "contract", contract_array(contract));
    return object;
}

static json_t *kernel_object(const struct ledger *ledger) {
    json_t *object = json_object();

    object_put_number(object, "offered", ledger->offered);
    object_put_number(object, "waiting", ledger->waiting);
    object_put_number(object, "queue_full", ledger->queue_full);
    object_put_number(object, "user_drop", ledger->user_drop);
    object_put_number(object, "unseen", ledger->unseen);
    return object;
}

/// Adds a ledger to a JSON object.
/// - object: holds the number of the queue, or is empty for the sum of all queues.
static json_t *put_queue_object(json_t *object, const struct ledger *ledger) {
    report_counters_put(object, &ledger->stats);
    object_put_number(object, "stalled", ledger->stalled);
    object_put(object, "kernel", ledger->known ? kernel_object(ledger) : json_null());
    object_put(object, "lost",
               ledger->known ? json_integer((json_int_t)ledger->lost) : json_null());
    object_put_number(object, "difference", ledger->difference);
    object_put_bool(object, "reconciled", ledger->reconciled);
    return object;
}

static json_t *ledger_object(const struct options *options, enum report_reason reason,
                             uint64_t time_ms, const struct ledger *ledgers, size_t count,
                             const struct tally *tally) {
    const struct ledger sum = sum_of(ledgers, count);
    json_t *object = json_object();
    json_t *queues = json_array();

    for (size_t i = 0; i < count; i++) {
        json_t *queue = json_object();

        object_put_number(queue, "queue", ledgers[i].number);
        json_array_append_new(queues, put_queue_object(queue, &ledgers[i]));
    }
    object_put_string(object, "event", "stats");
    object_put_string(object, "program", OPTIONS_PROGRAM);
    object_put_number(object, "time_ms", time_ms);
    object_put_string(object, "reason", reason_names[reason]);
    object_put(object, "queues", queues);
    object_put(object, "total", put_queue_object(json_object(), &sum));
    object_put_bool(object, "reconciled", sum.reconciled);
    if (tally->compiled)
        object_put(object, "policy", report_policy_ledger_object(options, tally));
    return object;
}

char *report_start(const struct options *options, const struct requirement *requirement,
                   uint32_t receive_buffer, const struct contract *contract, uint64_t time_ms) {
    char *report = NULL;
    size_t length;
    FILE *out;

    if (options->json)
        return object_line(start_object(options, requirement, receive_buffer, contract, time_ms));
    out = open_memstream(&report, &length);
    if (!out)
        return NULL;
    print_start(out, options, requirement, receive_buffer);
    contract_print(out, contract);
    fclose(out);
    return report;
}

char *report_ledger(const struct options *options, enum report_reason reason, uint64_t time_ms,
                    const struct ledger *ledgers, size_t count, const struct tally *tally) {
    char *report = NULL;
    size_t length;
    FILE *out;

    if (options->json)
        return object_line(ledger_object(options, reason, time_ms, ledgers, count, tally));
    out = open_memstream(&report, &length);
    if (!out)
        return NULL;
    print_ledgers(out, ledgers, count);
    if (tally->compiled) {
        const struct ledger sum = sum_of(ledgers, count);

        report_policy_print_ledger(out, options, &sum.stats, tally);
    }
    fclose(out);
    return report;
}
