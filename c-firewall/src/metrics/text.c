// SPDX-License-Identifier: GPL-2.0-or-later
#include "metrics/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counts.h"
#include "spec/metric.h"

#define TWIN "c"
#define PREFIX "twinwall_"

static const char *const type_names[] = {
    [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_INFO] = "info"};
/// Suffix of a sample's name after the name of its family.
static const char *const suffixes[] = {
    [METRIC_COUNTER] = "_total", [METRIC_GAUGE] = "", [METRIC_INFO] = "_info"};

static void put_family(FILE *out, const struct metric_family *family) {
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

/// A sample. values: of the family's labels, in their order; ends with NULL.
static void put_sample(FILE *out, const struct metric_family *family, const char *const *values,
                       uint64_t value) {
    const char *before = "{";

    fprintf(out, PREFIX "%s%s%s%s", family->name, family->unit ? "_" : "",
            family->unit ? family->unit : "", suffixes[family->type]);
    for (int i = 0; family->labels[i] && values[i]; i++) {
        fprintf(out, "%s%s=\"", before, family->labels[i]);
        put_label_value(out, values[i]);
        fputc('"', out);
        before = ",";
    }
    fprintf(out, "%s %" PRIu64 "\n", family->labels[0] ? "}" : "", value);
}

/// A family with one sample, which has no labels.
static void put_single(FILE *out, const struct metric_family *family, uint64_t value) {
    const char *const values[] = {NULL};

    put_family(out, family);
    put_sample(out, family, values, value);
}

/// The digits of a queue's number, in the room.
static const char *digits(uint32_t number, char room[static 11]) {
    sprintf(room, "%u", number);
    return room;
}

/// Parts of a family with one sample per queue.
struct queue_family {
    enum metric metric;
    uint64_t (*value)(const struct snapshot *snapshot, uint32_t queue);
};

#define LEDGER_VALUE(function, member)                                                             \
    static uint64_t function(const struct snapshot *snapshot, uint32_t queue) {                    \
        return snapshot->ledgers[queue].member;                                                    \
    }

LEDGER_VALUE(received, stats.received)
LEDGER_VALUE(bytes, stats.bytes)
LEDGER_VALUE(beyond_copy, stats.beyond_copy)
LEDGER_VALUE(truncated, stats.truncated)
LEDGER_VALUE(undecidable, stats.undecidable)
LEDGER_VALUE(undecided, stats.undecided)
LEDGER_VALUE(without_ct_state, stats.without_ct_state)
LEDGER_VALUE(refused, stats.refused)
LEDGER_VALUE(overruns, stats.overruns)
LEDGER_VALUE(without_id, stats.without_id)
LEDGER_VALUE(gaps, stats.gaps)
LEDGER_VALUE(send_retries, stats.send_retries)
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
    {METRIC_RECEIVED_PACKETS, received},
    {METRIC_RECEIVED_BYTES, bytes},
    {METRIC_BEYOND_COPY_PACKETS, beyond_copy},
    {METRIC_TRUNCATED_PACKETS, truncated},
    {METRIC_UNDECIDABLE_PACKETS, undecidable},
    {METRIC_UNDECIDED_PACKETS, undecided},
    {METRIC_WITHOUT_CT_STATE_PACKETS, without_ct_state},
    {METRIC_REFUSED_VERDICTS, refused},
    {METRIC_OVERRUNS, overruns},
    {METRIC_WITHOUT_ID_MESSAGES, without_id},
    {METRIC_GAP_IDS, gaps},
    {METRIC_SEND_RETRIES, send_retries},
    {METRIC_QUEUE_OFFERED_PACKETS, offered},
    {METRIC_QUEUE_WAITING_PACKETS, waiting},
    {METRIC_QUEUE_LENGTH_PACKETS, queue_length},
    {METRIC_QUEUE_UNSEEN_PACKETS, unseen},
    {METRIC_QUEUE_STALLED_PACKETS, stalled},
    {METRIC_LEDGER_DIFFERENCE_PACKETS, difference},
    {METRIC_LEDGER_RECONCILED, reconciled},
};

static void put_queue_family(FILE *out, const struct queue_family *queue_family,
                             const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[queue_family->metric];
    char room[11];

    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const char *const values[] = {digits(snapshot->ledgers[i].number, room), NULL};

        if (snapshot->ledgers[i].known || !family->kernel)
            put_sample(out, family, values, queue_family->value(snapshot, i));
    }
}

/// A sample of a family by queue and something else.
static void put_queue_sample(FILE *out, const struct metric_family *family,
                             const struct ledger *ledger, const char *value, uint64_t count) {
    char room[11];
    const char *const values[] = {digits(ledger->number, room), value, NULL};

    put_sample(out, family, values, count);
}

static void put_verdicts(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_PACKETS];

    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < VERDICT_COUNT; j++)
            put_queue_sample(out, family, &snapshot->ledgers[i], verdict_name((enum verdict)j),
                             snapshot->ledgers[i].stats.verdicts[j]);
}

static void put_malformed(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_MALFORMED_PACKETS];

    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];

        for (int j = PACKET_EMPTY; j < PACKET_STATUS_COUNT; j++)
            put_queue_sample(out, family, ledger, packet_status_name((enum packet_status)j),
                             ledger->stats.malformed[j]);
        put_queue_sample(out, family, ledger, "netlink", ledger->stats.netlink);
    }
}

static void put_replies(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_REPLIES];

    static_assert((int)METRIC_VALUES_MAX >= (int)REJECT_RESULT_COUNT, "all named");
    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < REJECT_RESULT_COUNT; j++)
            put_queue_sample(out, family, &snapshot->ledgers[i], family->values[j],
                             snapshot->ledgers[i].stats.replies[j]);
}

static void put_connections(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_CONNECTIONS];

    static_assert((int)METRIC_VALUES_MAX >= (int)NAMED_RESULT_COUNT, "all named");
    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < NAMED_RESULT_COUNT; j++)
            put_queue_sample(out, family, &snapshot->ledgers[i], family->values[j],
                             snapshot->ledgers[i].stats.connections[j]);
}

static void put_answers(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_DNS_ANSWERS];

    static_assert((int)METRIC_VALUES_MAX >= (int)TEACH_RESULT_COUNT, "all named");
    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        for (int j = 0; j < TEACH_RESULT_COUNT; j++)
            put_queue_sample(out, family, &snapshot->ledgers[i], family->values[j],
                             snapshot->ledgers[i].stats.answers[j]);
}

static void put_lost(FILE *out, const struct snapshot *snapshot) {
    const struct metric_family *family = &metric_families[METRIC_QUEUE_LOST_PACKETS];

    put_family(out, family);
    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];
        const uint64_t lost[] = {ledger->queue_full, ledger->user_drop};

        for (size_t j = 0; ledger->known && j < sizeof lost / sizeof *lost; j++)
            put_queue_sample(out, family, ledger, family->values[j], lost[j]);
    }
}

/// A sample of a rule's statement.
static void put_rule_sample(FILE *out, const struct metric_family *family,
                            const struct snapshot_rule *rule, uint32_t position, uint32_t statement,
                            uint64_t value) {
    char position_room[11], statement_room[11];
    const char *const values[METRIC_LABELS_MAX + 1] = {
        rule->table,
        rule->chain,
        digits(position, position_room),
        rule->rule,
        digits(statement, statement_room),
        rule->comment ? rule->comment : "",
    };

    put_sample(out, family, values, value);
}

enum rule_figure { RULE_PACKETS, RULE_BYTES, RULE_LOGGED, RULE_FIGURE_COUNT };

static void put_rule(FILE *out, const struct metric_family *family,
                     const struct snapshot_rule *rule, uint32_t position, enum rule_figure figure) {
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
    static const enum metric metrics[] = {
        [RULE_PACKETS] = METRIC_RULE_PACKETS,
        [RULE_BYTES] = METRIC_RULE_BYTES,
        [RULE_LOGGED] = METRIC_RULE_LOGGED_PACKETS,
    };

    for (int figure = 0; figure < RULE_FIGURE_COUNT; figure++) {
        const struct metric_family *family = &metric_families[metrics[figure]];
        uint32_t position = 0;

        put_family(out, family);
        for (uint32_t i = 0; i < snapshot->rule_count; i++) {
            const struct snapshot_rule *rule = &snapshot->rules[i];

            position = i > 0 && is_same_chain(rule, rule - 1) ? position + 1 : 1;
            put_rule(out, family, rule, position, (enum rule_figure)figure);
        }
    }
}

static void put_policy(FILE *out, const struct snapshot *snapshot) {
    put_single(out, &metric_families[METRIC_POLICY_GENERATION], snapshot->generation);
    put_single(out, &metric_families[METRIC_POLICY_LOADED_TIME_SECONDS],
               snapshot->loaded_ms / 1000);
    put_single(out, &metric_families[METRIC_POLICY_CHAINS], snapshot->chain_count);
    put_single(out, &metric_families[METRIC_POLICY_RULES], snapshot->rule_count);
    put_single(out, &metric_families[METRIC_POLICY_RELOAD_FAILED], snapshot->reload_error != NULL);
    put_single(out, &metric_families[METRIC_POLICY_LEARNED_ADDRESSES], snapshot->learned);
    put_rules(out, snapshot);
}

static void put_counts(FILE *out, const uint64_t *counts) {
    for (int i = 0; i < COUNT_COUNT; i++) {
        const struct metric_family family = {
            .name = counts_name((enum count)i),
            .type = METRIC_COUNTER,
            .help = counts_help((enum count)i),
        };

        put_single(out, &family, counts[i]);
    }
}

static void put_process(FILE *out, const struct snapshot *snapshot, uint64_t resident_bytes) {
    const struct metric_family *build = &metric_families[METRIC_BUILD];
    const char *const values[] = {TWIN, OPTIONS_VERSION, NULL};

    put_family(out, build);
    put_sample(out, build, values, 1);
    put_single(out, &metric_families[METRIC_START_TIME_SECONDS], snapshot->started_ms / 1000);
    put_single(out, &metric_families[METRIC_UPTIME_SECONDS], snapshot->uptime_ms / 1000);
    put_single(out, &metric_families[METRIC_RESIDENT_MEMORY_BYTES], resident_bytes);
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
    put_replies(out, snapshot);
    put_connections(out, snapshot);
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
