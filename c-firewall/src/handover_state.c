// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover_state.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packet.h"
#include "reject.h"
#include "verdict.h"

enum {
    NAME_BYTES = 64, // of a counter
    STATS_WORDS =
        (offsetof(struct stats, answers) + sizeof((struct stats){0}.answers)) / sizeof(uint64_t),
};

const char *handover_state_fd_name(enum handover_fd fd) {
    static const char *const names[] = {
        [HANDOVER_CONTROL] = "control",
        [HANDOVER_METRICS] = "metrics",
        [HANDOVER_EVENTS] = "events",
    };

    return names[fd];
}

int handover_state_make_queues(struct handover *state, uint32_t count) {
    const size_t bytes = count * sizeof *state->queues;

    state->queues = aligned_alloc(STATS_ALIGN, bytes);
    if (!state->queues)
        return -ENOMEM;
    memset(state->queues, 0, bytes);
    state->queue_count = count;
    return 0;
}

/// The name of a counter of struct stats, by its place.
static const char *stats_word_name(size_t word, char name[static NAME_BYTES]) {
    static const char *const first[] = {"received", "netlink", "bytes"};
    static const char *const then[] = {"cut",     "truncated",   "overruns",
                                       "refused", "undecidable", "without_ct_state"};
    static const char *const answers[REJECT_RESULT_COUNT] = {
        [REJECT_SENT] = "sent", [REJECT_NOT_DUE] = "not-due", [REJECT_FAILED] = "failed"};

    if (word < sizeof first / sizeof *first)
        return first[word];
    word -= sizeof first / sizeof *first;
    if (word < VERDICT_COUNT) {
        snprintf(name, NAME_BYTES, "verdict-%s", verdict_name((enum verdict)word));
        return name;
    }
    word -= VERDICT_COUNT;
    if (word < PACKET_STATUS_COUNT) {
        snprintf(name, NAME_BYTES, "malformed-%s", packet_status_name((enum packet_status)word));
        return name;
    }
    word -= PACKET_STATUS_COUNT;
    if (word < sizeof then / sizeof *then)
        return then[word];
    word -= sizeof then / sizeof *then;
    snprintf(name, NAME_BYTES, "answers-%s", answers[word]);
    return name;
}

static void put_number(json_t *object, const char *key, uint64_t number) {
    json_object_set_new_nocheck(object, key, json_integer((json_int_t)number));
}

static json_t *string_or_null(const char *text) {
    return text ? json_string_nocheck(text) : json_null();
}

static json_t *print_stats(const struct stats *stats) {
    const uint64_t *words = (const uint64_t *)stats;
    json_t *object = json_object();
    char name[NAME_BYTES];

    for (size_t i = 0; i < STATS_WORDS; i++)
        put_number(object, stats_word_name(i, name), words[i]);
    return object;
}

static json_t *print_queue(const struct handover_queue *queue) {
    json_t *object = json_object();

    put_number(object, "queue", queue->number);
    put_number(object, "copy_bytes", queue->given.copy_bytes);
    put_number(object, "flags", queue->given.flags);
    put_number(object, "stalled", queue->stalled);
    json_object_set_new_nocheck(object, "stats", print_stats(&queue->stats));
    return object;
}

static json_t *print_counter(const struct flow_counter *counter) {
    json_t *pair = json_array();

    json_array_append_new(pair, json_integer((json_int_t)counter->packets));
    json_array_append_new(pair, json_integer((json_int_t)counter->bytes));
    return pair;
}

static json_t *print_limit(const struct flow_limit *limit, const struct flow_word *word) {
    json_t *object = json_object();

    put_number(object, "nsecs", limit->nsecs);
    put_number(object, "rate", limit->rate);
    put_number(object, "size", (uint64_t)limit->size);
    put_number(object, "cost", (uint64_t)limit->cost);
    json_object_set_new_nocheck(object, "of_bytes", json_boolean(limit->of_bytes));
    put_number(object, "empty_ns", (uint64_t)__atomic_load_n(&word->empty_ns, __ATOMIC_RELAXED));
    return object;
}

/// A statement of a kind, by its number.
static json_t *print_statement(const struct carry_side *side, enum carry_kind kind, uint32_t i) {
    switch (kind) {
    case CARRY_COUNTERS:
        return print_counter(&side->counters[i]);
    case CARRY_LOGS:
        return json_integer((json_int_t)side->logged[i]);
    case CARRY_LIMITS:
        return print_limit(&side->limits[i], side->limit_words[i]);
    default:
        return json_integer(
            (json_int_t)__atomic_load_n(&side->quota_words[i]->used, __ATOMIC_RELAXED));
    }
}

static const char *const kind_keys[CARRY_KIND_COUNT] = {
    [CARRY_COUNTERS] = "counters",
    [CARRY_LOGS] = "logs",
    [CARRY_LIMITS] = "limits",
    [CARRY_QUOTAS] = "quotas",
};

static json_t *print_rule_state(const struct carry_side *side, const struct carry_rule *rule) {
    json_t *object = json_object();

    json_object_set_new_nocheck(object, "chain", json_string_nocheck(rule->chain));
    json_object_set_new_nocheck(object, "comment", string_or_null(rule->comment));
    json_object_set_new_nocheck(object, "text", json_string_nocheck(rule->text));
    for (int kind = 0; kind < CARRY_KIND_COUNT; kind++) {
        json_t *list = json_array();

        for (uint32_t n = 0; n < rule->count[kind]; n++)
            json_array_append_new(
                list, print_statement(side, (enum carry_kind)kind, rule->first[kind] + n));
        json_object_set_new_nocheck(object, kind_keys[kind], list);
    }
    return object;
}

/// The line's text with its end; NULL = no memory. Gives the object up.
static char *line_of(json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);
    const size_t length = text ? strlen(text) : 0;
    char *line = text ? realloc(text, length + 2) : NULL;

    json_decref(object);
    if (!line) {
        free(text);
        return NULL;
    }
    line[length] = '\n';
    line[length + 1] = '\0';
    return line;
}

char *handover_state_print(const struct handover *state) {
    json_t *object = json_object(), *counts = json_object();
    json_t *queues = json_array(), *rules = json_array();

    for (int i = 0; i < COUNT_COUNT; i++)
        put_number(counts, counts_name((enum count)i), state->counts[i]);
    for (uint32_t i = 0; i < state->queue_count; i++)
        json_array_append_new(queues, print_queue(&state->queues[i]));
    for (uint32_t i = 0; i < state->side.rule_count; i++)
        json_array_append_new(rules, print_rule_state(&state->side, &state->side.rules[i]));
    json_object_set_new_nocheck(object, "ok", json_true());
    put_number(object, "version", HANDOVER_VERSION);
    put_number(object, "pid", (uint64_t)state->pid);
    put_number(object, "generation", state->generation);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        json_object_set_new_nocheck(object, handover_state_fd_name((enum handover_fd)i),
                                    string_or_null(state->options[i]));
    json_object_set_new_nocheck(object, "counts", counts);
    json_object_set_new_nocheck(object, "queues", queues);
    json_object_set_new_nocheck(object, "rules", rules);
    return line_of(object);
}

/// Says which part is not as it should be. Returns -EPROTO.
static int fail_part(const char *part, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "the old firewall's state has no good \"%s\": is it a firewall of this kind?",
                part);
    return -EPROTO;
}

/// Reads a number that must be there. Returns 0, or -EPROTO with failure filled in.
static int read_number(const json_t *object, const char *key, uint64_t max, uint64_t *number,
                       struct failure *failure) {
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max)
        return fail_part(key, failure);
    *number = (uint64_t)json_integer_value(value);
    return 0;
}

/// The whole number that is there, if it is one; else 0.
static uint64_t number_of(const json_t *value) {
    const json_int_t number = json_integer_value(value);

    return number > 0 ? (uint64_t)number : 0;
}

static int parse_queue(const json_t *object, struct handover_queue *queue,
                       struct failure *failure) {
    const json_t *stats = json_object_get(object, "stats");
    uint64_t *words = (uint64_t *)&queue->stats;
    uint64_t number = 0, copy_bytes = 0, flags = 0;
    char name[NAME_BYTES];

    if (!json_is_object(stats))
        return fail_part("stats", failure);
    if (read_number(object, "queue", UINT16_MAX, &number, failure) < 0 ||
        read_number(object, "copy_bytes", UINT32_MAX, &copy_bytes, failure) < 0 ||
        read_number(object, "flags", UINT32_MAX, &flags, failure) < 0 ||
        read_number(object, "stalled", INT64_MAX, &queue->stalled, failure) < 0)
        return -EPROTO;
    queue->number = (uint16_t)number;
    queue->given = (struct queue_given){
        .fd = -1, .copy_bytes = (uint32_t)copy_bytes, .flags = (uint32_t)flags};
    for (size_t i = 0; i < STATS_WORDS; i++)
        words[i] = number_of(json_object_get(stats, stats_word_name(i, name)));
    return 0;
}

static int parse_queues(const json_t *queues, struct handover *state, struct failure *failure) {
    const size_t count = json_array_size(queues);

    if (count == 0 || count > OPTIONS_QUEUES_MAX)
        return fail_part("queues", failure);
    if (handover_state_make_queues(state, (uint32_t)count) < 0) {
        failure_set_start(failure, "aligned_alloc", ENOMEM);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        state->queues[i].given.fd = -1;
    for (size_t i = 0; i < count; i++)
        if (parse_queue(json_array_get(queues, i), &state->queues[i], failure) < 0)
            return -EPROTO;
    return 0;
}

/// Makes room for the state of statements: so many of each kind. Returns 0 or -ENOMEM.
static int make_statements(struct handover *state, const uint32_t count[CARRY_KIND_COUNT]) {
    struct compiled shape = {.limit_count = count[CARRY_LIMITS],
                             .quota_count = count[CARRY_QUOTAS]};
    int result = -ENOMEM;

    // One more than needed: none is no failure.
    state->counters = calloc(count[CARRY_COUNTERS] + 1U, sizeof *state->counters);
    state->logged = calloc(count[CARRY_LOGS] + 1U, sizeof *state->logged);
    state->limits = calloc(count[CARRY_LIMITS] + 1U, sizeof *state->limits);
    shape.quotas = calloc(count[CARRY_QUOTAS] + 1U, sizeof *shape.quotas);
    if (state->counters && state->logged && state->limits && shape.quotas)
        result = flow_make(&state->flow, &shape);
    free(shape.quotas);
    state->side.counters = state->counters;
    state->side.logged = state->logged;
    state->side.limits = state->limits;
    state->side.limit_words = state->flow.limit;
    state->side.quota_words = state->flow.quota;
    return result;
}

static void parse_limit(const json_t *object, struct flow_limit *limit, struct flow_word *word) {
    *limit = (struct flow_limit){
        .nsecs = number_of(json_object_get(object, "nsecs")),
        .rate = number_of(json_object_get(object, "rate")),
        .size = (int64_t)number_of(json_object_get(object, "size")),
        .cost = (int64_t)number_of(json_object_get(object, "cost")),
        .of_bytes = json_is_true(json_object_get(object, "of_bytes")),
    };
    word->empty_ns = json_integer_value(json_object_get(object, "empty_ns"));
}

static void parse_statement(struct handover *state, enum carry_kind kind, uint32_t i,
                            const json_t *value) {
    switch (kind) {
    case CARRY_COUNTERS:
        state->counters[i] = (struct flow_counter){.packets = number_of(json_array_get(value, 0)),
                                                   .bytes = number_of(json_array_get(value, 1))};
        break;
    case CARRY_LOGS:
        state->logged[i] = number_of(value);
        break;
    case CARRY_LIMITS:
        parse_limit(value, &state->limits[i], state->flow.limit[i]);
        break;
    default:
        state->flow.quota[i]->used = number_of(value);
    }
}

/// A copy of a text; NULL: there is none, or no memory.
static char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? strdup(text) : NULL;
}

/// Reads how a rule is known again, and where its statements will be.
/// - next: how many of each kind there are in the rules before; counted up.
/// - Returns 0 or -EPROTO with failure filled in.
static int parse_rule_name(const json_t *object, uint32_t next[CARRY_KIND_COUNT],
                           struct carry_rule *rule, struct failure *failure) {
    for (int kind = 0; kind < CARRY_KIND_COUNT; kind++) {
        rule->first[kind] = next[kind];
        rule->count[kind] = (uint32_t)json_array_size(json_object_get(object, kind_keys[kind]));
        next[kind] += rule->count[kind];
    }
    rule->chain = text_of(object, "chain");
    rule->comment = text_of(object, "comment");
    rule->text = text_of(object, "text");
    return rule->chain && rule->text ? 0 : fail_part("rules", failure);
}

static int parse_rules(const json_t *rules, struct handover *state, struct failure *failure) {
    const size_t count = json_array_size(rules);
    uint32_t next[CARRY_KIND_COUNT] = {0};
    int result = 0;

    if (!json_is_array(rules))
        return fail_part("rules", failure);
    state->side.rules = calloc(count + 1, sizeof *state->side.rules);
    for (size_t i = 0; state->side.rules && result == 0 && i < count; i++)
        result = parse_rule_name(json_array_get(rules, i), next,
                                 &state->side.rules[state->side.rule_count++], failure);
    if (result < 0)
        return result;
    if (!state->side.rules || make_statements(state, next) < 0) {
        failure_set_start(failure, "calloc", ENOMEM);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        for (int kind = 0; kind < CARRY_KIND_COUNT; kind++)
            for (uint32_t n = 0; n < state->side.rules[i].count[kind]; n++)
                parse_statement(
                    state, (enum carry_kind)kind, state->side.rules[i].first[kind] + n,
                    json_array_get(json_object_get(json_array_get(rules, i), kind_keys[kind]), n));
    return 0;
}

/// Says why the other one refuses, on one line whatever it says. Returns -EPERM.
static int fail_refused(const json_t *object, struct failure *failure) {
    const char *error = json_string_value(json_object_get(object, "error"));

    failure_set(failure, LOG_EXIT_CALL, "the old firewall gives nothing away: %s",
                error ? error : "it does not say why");
    for (char *at = failure->text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = '?';
    return -EPERM;
}

static int parse_object(const json_t *object, struct handover *state, struct failure *failure) {
    const json_t *counts = json_object_get(object, "counts");
    uint64_t version = 0, pid = 0, generation = 0;
    int result;

    if (json_is_false(json_object_get(object, "ok")))
        return fail_refused(object, failure);
    if (read_number(object, "version", INT64_MAX, &version, failure) < 0 ||
        read_number(object, "pid", INT32_MAX, &pid, failure) < 0 ||
        read_number(object, "generation", UINT32_MAX, &generation, failure) < 0)
        return -EPROTO;
    if (version != HANDOVER_VERSION)
        return fail_part("version", failure);
    state->pid = (int64_t)pid;
    state->generation = (uint32_t)generation;
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        state->options[i] = text_of(object, handover_state_fd_name((enum handover_fd)i));
    for (int i = 0; i < COUNT_COUNT; i++)
        state->counts[i] = number_of(json_object_get(counts, counts_name((enum count)i)));
    result = parse_queues(json_object_get(object, "queues"), state, failure);
    return result < 0 ? result : parse_rules(json_object_get(object, "rules"), state, failure);
}

int handover_state_parse(const char *line, struct handover *state, struct failure *failure) {
    json_t *object = json_loads(line, 0, NULL);
    int result;

    if (json_is_object(object)) {
        result = parse_object(object, state, failure);
    } else {
        failure_set(failure, LOG_EXIT_CALL,
                    "what answers there is no firewall: give --take-over the path of a firewall's "
                    "--control");
        result = -EPROTO;
    }
    json_decref(object);
    return result;
}
