// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define TWIN "c"
#define PREFIX "twinwall_"

enum { LABELS_MAX = 6 };

enum type { COUNTER, GAUGE, INFO };

static const char *const type_names[] = {[COUNTER] = "counter", [GAUGE] = "gauge", [INFO] = "info"};
/// What the name of a sample has behind the name of its family.
static const char *const suffixes[] = {[COUNTER] = "_total", [GAUGE] = "", [INFO] = "_info"};

/// Samples of one name.
struct family {
    const char *name;
    const char *unit; // which the name ends with; NULL = none
    enum type type;
    const char *help;
};

/// Ends with {NULL}.
struct label {
    const char *name;
    const char *value;
};

static void put_family(FILE *out, const struct family *family) {
    const char *underscore = family->unit ? "_" : "";
    const char *unit = family->unit ? family->unit : "";

    fprintf(out, "# HELP " PREFIX "%s%s%s %s\n", family->name, underscore, unit, family->help);
    fprintf(out, "# TYPE " PREFIX "%s%s%s %s\n", family->name, underscore, unit,
            type_names[family->type]);
    if (family->unit)
        fprintf(out, "# UNIT " PREFIX "%s%s%s %s\n", family->name, underscore, unit, unit);
}

static void put_label_value(FILE *out, const char *value) {
    for (const char *at = value; *at; at++) {
        if (*at == '\\' || *at == '"')
            fputc('\\', out);
        if (*at == '\n')
            fputs("\\n", out);
        else
            fputc(*at, out);
    }
}

static void put_sample(FILE *out, const struct family *family, const struct label *labels,
                       uint64_t value) {
    const char *before = "{";

    fprintf(out, PREFIX "%s%s%s%s", family->name, family->unit ? "_" : "",
            family->unit ? family->unit : "", suffixes[family->type]);
    for (const struct label *label = labels; label->name; label++) {
        fprintf(out, "%s%s=\"", before, label->name);
        put_label_value(out, label->value);
        fputc('"', out);
        before = ",";
    }
    fprintf(out, "%s %" PRIu64 "\n", labels->name ? "}" : "", value);
}

/// A family with one sample, which has no labels.
static void put_single(FILE *out, const struct family *family, uint64_t value) {
    put_family(out, family);
    put_sample(out, family, (struct label[]){{NULL, NULL}}, value);
}

/// The digits of a queue's number, in the room.
static const char *digits(uint32_t number, char room[static 11]) {
    sprintf(room, "%u", number);
    return room;
}

/// What a family with a sample a queue is made of.
struct queue_family {
    struct family family;
    uint64_t (*value)(const struct snapshot *snapshot, uint32_t queue);
};

#define LEDGER_VALUE(function, member)                                                             \
    static uint64_t function(const struct snapshot *snapshot, uint32_t queue) {                    \
        return snapshot->ledgers[queue].member;                                                    \
    }

LEDGER_VALUE(received, stats.received)
LEDGER_VALUE(bytes, stats.bytes)
LEDGER_VALUE(cut, stats.cut)
LEDGER_VALUE(truncated, stats.truncated)
LEDGER_VALUE(undecidable, stats.undecidable)
LEDGER_VALUE(without_ct_state, stats.without_ct_state)
LEDGER_VALUE(refused, stats.refused)
LEDGER_VALUE(overruns, stats.overruns)
LEDGER_VALUE(offered, offered)
LEDGER_VALUE(waiting, waiting)
LEDGER_VALUE(unseen, unseen)
LEDGER_VALUE(difference, difference)
LEDGER_VALUE(reconciled, reconciled)

static uint64_t queue_length(const struct snapshot *snapshot, uint32_t queue) {
    (void)queue;
    return snapshot->options->queue_length;
}

static uint64_t stalled(const struct snapshot *snapshot, uint32_t queue) {
    return snapshot->stalled[queue];
}

static const struct queue_family queue_families[] = {
    {{"received_packets", NULL, COUNTER, "Packets received from the queue"}, received},
    {{"received", "bytes", COUNTER, "Bytes of the packets received"}, bytes},
    {{"cut_packets", NULL, COUNTER, "Packets with a header behind the copied bytes"}, cut},
    {{"truncated_packets", NULL, COUNTER, "Messages that the receive slot was too small for"},
     truncated},
    {{"undecidable_packets", NULL, COUNTER, "Packets cut before what the policy reads"},
     undecidable},
    {{"without_ct_state_packets", NULL, COUNTER,
      "Packets without a connection state where the policy asks for it"},
     without_ct_state},
    {{"refused_verdicts", NULL, COUNTER, "Verdicts for packets that the kernel no longer had"},
     refused},
    {{"overruns", NULL, COUNTER, "Receive calls that told of lost packets"}, overruns},
    {{"queue_offered_packets", NULL, COUNTER, "Packets that the kernel meant for the queue"},
     offered},
    {{"queue_waiting_packets", NULL, GAUGE, "Packets that wait for a verdict"}, waiting},
    {{"queue_length_packets", NULL, GAUGE, "Packets that may wait for a verdict"}, queue_length},
    {{"queue_unseen_packets", NULL, GAUGE,
      "Packets that passed uninspected as the socket was full"},
     unseen},
    {{"queue_stalled_packets", NULL, COUNTER, "Packets answered by the guard after the deadline"},
     stalled},
    {{"ledger_difference_packets", NULL, GAUGE, "Packets that the ledger does not account for"},
     difference},
    {{"ledger_reconciled", NULL, GAUGE, "Whether the ledger reconciles: 1 if it does"}, reconciled},
};

static void put_queue_family(FILE *out, const struct queue_family *family,
                             const struct snapshot *snapshot) {
    char room[11];

    put_family(out, &family->family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct label labels[] = {{"queue", digits(snapshot->ledgers[i].number, room)},
                                       {NULL, NULL}};

        put_sample(out, &family->family, labels, family->value(snapshot, i));
    }
}

/// A sample of a family by queue and something else.
static void put_queue_sample(FILE *out, const struct family *family, const struct ledger *ledger,
                             const char *label, const char *value, uint64_t count) {
    char room[11];
    const struct label labels[] = {
        {"queue", digits(ledger->number, room)}, {label, value}, {NULL, NULL}};

    put_sample(out, family, labels, count);
}

static void put_verdicts(FILE *out, const struct snapshot *snapshot) {
    static const struct family family = {"packets", NULL, COUNTER, "Packets answered, by verdict"};

    put_family(out, &family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < VERDICT_COUNT; j++)
            put_queue_sample(out, &family, &snapshot->ledgers[i], "verdict",
                             verdict_name((enum verdict)j), snapshot->ledgers[i].stats.verdicts[j]);
}

static void put_malformed(FILE *out, const struct snapshot *snapshot) {
    static const struct family family = {"malformed_packets", NULL, COUNTER,
                                         "Malformed packets, by reason"};

    put_family(out, &family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];

        for (int j = PACKET_EMPTY; j < PACKET_STATUS_COUNT; j++)
            put_queue_sample(out, &family, ledger, "reason",
                             packet_status_name((enum packet_status)j), ledger->stats.malformed[j]);
        put_queue_sample(out, &family, ledger, "reason", "netlink", ledger->stats.netlink);
    }
}

static void put_answers(FILE *out, const struct snapshot *snapshot) {
    static const struct family family = {"answers", NULL, COUNTER,
                                         "Answers to rejected packets, by what became of them"};
    static const char *const results[] = {
        [REJECT_SENT] = "sent", [REJECT_NOT_DUE] = "not_due", [REJECT_FAILED] = "failed"};

    static_assert(sizeof results / sizeof *results == REJECT_RESULT_COUNT, "all named");
    put_family(out, &family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < REJECT_RESULT_COUNT; j++)
            put_queue_sample(out, &family, &snapshot->ledgers[i], "result", results[j],
                             snapshot->ledgers[i].stats.answers[j]);
}

static void put_lost(FILE *out, const struct snapshot *snapshot) {
    static const struct family family = {"queue_lost_packets", NULL, COUNTER,
                                         "Packets that the kernel dropped, by reason"};

    put_family(out, &family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];

        put_queue_sample(out, &family, ledger, "reason", "queue_full", ledger->queue_full);
        put_queue_sample(out, &family, ledger, "reason", "user_drop", ledger->user_drop);
    }
}

/// A sample of a rule's statement.
static void put_rule_sample(FILE *out, const struct family *family,
                            const struct snapshot_rule *rule, uint32_t position, uint32_t statement,
                            uint64_t value) {
    char position_room[11], statement_room[11];
    const struct label labels[LABELS_MAX + 1] = {
        {"table", rule->table},
        {"chain", rule->chain},
        {"position", digits(position, position_room)},
        {"rule", rule->rule},
        {"statement", digits(statement, statement_room)},
        {"comment", rule->comment ? rule->comment : ""},
    };

    put_sample(out, family, labels, value);
}

enum rule_figure { RULE_PACKETS, RULE_BYTES, RULE_LOGGED, RULE_FIGURE_COUNT };

static void put_rule(FILE *out, const struct family *family, const struct snapshot_rule *rule,
                     uint32_t position, enum rule_figure figure) {
    if (figure == RULE_LOGGED) {
        for (uint32_t i = 0; i < rule->log_count; i++)
            put_rule_sample(out, family, rule, position, rule->logs[i].statement,
                            rule->logs[i].packets);
        return;
    }
    for (uint32_t i = 0; i < rule->counter_count; i++) {
        const struct snapshot_counter *counter = &rule->counters[i];

        put_rule_sample(out, family, rule, position, counter->statement,
                        figure == RULE_PACKETS ? counter->packets : counter->bytes);
    }
}

static bool is_same_chain(const struct snapshot_rule *a, const struct snapshot_rule *b) {
    return strcmp(a->chain, b->chain) == 0 && strcmp(a->table, b->table) == 0;
}

/// A rule is told by its position in its chain, as several may stand on a line.
static void put_rules(FILE *out, const struct snapshot *snapshot) {
    static const struct family families[] = {
        [RULE_PACKETS] = {"rule_packets", NULL, COUNTER,
                          "Packets that a counter of a rule counted"},
        [RULE_BYTES] = {"rule", "bytes", COUNTER, "Bytes that a counter of a rule counted"},
        [RULE_LOGGED] = {"rule_logged_packets", NULL, COUNTER,
                         "Packets that a log statement of a rule logged"},
    };

    for (int figure = 0; figure < RULE_FIGURE_COUNT; figure++) {
        uint32_t position = 0;

        put_family(out, &families[figure]);
        for (uint32_t i = 0; i < snapshot->rule_count; i++) {
            const struct snapshot_rule *rule = &snapshot->rules[i];

            position = i > 0 && is_same_chain(rule, rule - 1) ? position + 1 : 1;
            put_rule(out, &families[figure], rule, position, (enum rule_figure)figure);
        }
    }
}

static void put_policy(FILE *out, const struct snapshot *snapshot) {
    static const struct family generation = {"policy_generation", NULL, GAUGE,
                                             "Number of the policy, which counts up from 1"};
    static const struct family loaded = {"policy_loaded_time", "seconds", GAUGE,
                                         "UNIX time at which the policy was loaded"};
    static const struct family chains = {"policy_chains", NULL, GAUGE, "Chains of the policy"};
    static const struct family rules = {"policy_rules", NULL, GAUGE, "Rules of the policy"};
    static const struct family failed = {"policy_reload_failed", NULL, GAUGE,
                                         "Whether the last reload failed: 1 if it did"};

    put_single(out, &generation, snapshot->generation);
    put_single(out, &loaded, snapshot->loaded_ms / 1000);
    put_single(out, &chains, snapshot->chain_count);
    put_single(out, &rules, snapshot->rule_count);
    put_single(out, &failed, snapshot->reload_error != NULL);
    put_rules(out, snapshot);
}

static const char *const count_helps[] = {
    [COUNT_RELOADS] = "Reloads of the policy",
    [COUNT_RELOADS_FAILED] = "Reloads that left the old policy running",
    [COUNT_STALLS] = "Times that packets waited longer than the deadline",
    [COUNT_STALLED_PACKETS] = "Packets answered by the guard in all queues",
    [COUNT_CONTROL_CLIENTS] = "Clients of the control socket that were served",
    [COUNT_CONTROL_REQUESTS] = "Requests of the control socket that were understood",
    [COUNT_CONTROL_REFUSED] = "Clients of the control socket refused by their credentials",
    [COUNT_CONTROL_TOO_MANY] = "Clients of the control socket that found all places taken",
    [COUNT_CONTROL_BAD] = "Requests of the control socket that were not understood",
    [COUNT_CONTROL_SLOW] = "Clients of the control socket closed as they did not read",
    [COUNT_METRICS_REQUESTS] = "Requests for the metrics that were answered with them",
    [COUNT_METRICS_UNANSWERED] = "Connections for metrics that ended without an understood request",
    [COUNT_METRICS_REFUSED] = "Requests for something else than the metrics",
    [COUNT_EVENTS_WRITTEN] = "Events that were written",
    [COUNT_EVENTS_LEFT_OUT] = "Events left out as there were too many a second",
    [COUNT_EVENTS_LOST] = "Events lost as a ring was full",
    [COUNT_EVENTS_FAILED] = "Events that could not be written",
    [COUNT_TAIL_CLIENTS] = "Clients that followed the events",
    [COUNT_TAIL_LOST] = "Events that a following client read too slowly for",
    [COUNT_UPGRADES] = "Times that queues were handed over to another process",
    [COUNT_UPGRADES_FAILED] = "Times that handing over failed",
};
static_assert(sizeof count_helps / sizeof *count_helps == COUNT_COUNT, "all explained");

static void put_counts(FILE *out, const uint64_t *counts) {
    for (int i = 0; i < COUNT_COUNT; i++) {
        const struct family family = {counts_name((enum count)i), NULL, COUNTER, count_helps[i]};

        put_single(out, &family, counts[i]);
    }
}

static void put_process(FILE *out, const struct snapshot *snapshot, uint64_t resident_bytes) {
    static const struct family build = {"build", NULL, INFO, "The program and its version"};
    static const struct family start = {"start_time", "seconds", GAUGE,
                                        "UNIX time at which the firewall started"};
    static const struct family uptime = {"uptime", "seconds", GAUGE,
                                         "Seconds since the firewall started"};
    static const struct family memory = {"resident_memory", "bytes", GAUGE,
                                         "Memory of the process that is in use"};
    const struct label labels[] = {{"twin", TWIN}, {"version", OPTIONS_VERSION}, {NULL, NULL}};

    put_family(out, &build);
    put_sample(out, &build, labels, 1);
    put_single(out, &start, snapshot->started_ms / 1000);
    put_single(out, &uptime, (snapshot->time_ms - snapshot->started_ms) / 1000);
    put_single(out, &memory, resident_bytes);
}

char *metrics_text(const struct snapshot *snapshot, const uint64_t *counts,
                   uint64_t resident_bytes) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    bool failed;

    if (!out)
        return NULL;
    put_process(out, snapshot, resident_bytes);
    put_verdicts(out, snapshot);
    for (size_t i = 0; i < sizeof queue_families / sizeof *queue_families; i++)
        put_queue_family(out, &queue_families[i], snapshot);
    put_lost(out, snapshot);
    put_malformed(out, snapshot);
    put_answers(out, snapshot);
    if (snapshot->policy_file)
        put_policy(out, snapshot);
    put_counts(out, counts);
    fputs("# EOF\n", out);
    failed = ferror(out);
    if (fclose(out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
