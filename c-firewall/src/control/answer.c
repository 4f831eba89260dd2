// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/answer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counts.h"
#include "state/contract.h"
#include "state/report_policy.h"

static void put(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, value);
}

static void put_number(json_t *object, const char *key, uint64_t value) {
    put(object, key, json_integer((json_int_t)value));
}

/// NULL is null.
static void put_string(json_t *object, const char *key, const char *value) {
    put(object, key, value ? json_string(value) : json_null());
}

static void put_bool(json_t *object, const char *key, bool value) {
    put(object, key, json_boolean(value));
}

/// The beginning of an answer.
static json_t *answer(bool ok) {
    json_t *object = json_object();

    put_bool(object, "ok", ok);
    return object;
}

/// The object as a line; it is freed.
static char *line_of(json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);
    char *line = NULL;

    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    json_decref(object);
    return line;
}

char *control_answer_error(const char *text) {
    json_t *object = answer(false);

    put_string(object, "error", text);
    return line_of(object);
}

static json_t *policy_object(const struct snapshot *snapshot) {
    const char *tracked = tracked_name(snapshot->tracked);
    json_t *object;

    if (!snapshot->policy_file)
        return json_null();
    object = json_object();
    put_string(object, "file", snapshot->policy_file);
    put_number(object, "generation", snapshot->generation);
    put_number(object, "loaded_ms", snapshot->loaded_ms);
    put_number(object, "chains", snapshot->chain_count);
    put_number(object, "rules", snapshot->rule_count);
    put(object, "requirement", report_policy_requirement_object(&snapshot->requirement));
    put(object, "ct_state", tracked ? json_string(tracked) : json_null());
    return object;
}

/// A figure that comes from the kernel's; null if they are not known.
static void put_known(json_t *object, const char *key, const struct ledger *ledger,
                      uint64_t value) {
    put(object, key, ledger->known ? json_integer((json_int_t)value) : json_null());
}

static json_t *queues_array(const struct snapshot *snapshot) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];
        json_t *object = json_object();

        put_number(object, "queue", ledger->number);
        put_known(object, "waiting", ledger, ledger->waiting);
        put_number(object, "queue_length", snapshot->options->queue_length);
        put_number(object, "received", ledger->stats.received);
        put_known(object, "queue_full", ledger, ledger->queue_full);
        put_known(object, "user_drop", ledger, ledger->user_drop);
        put_known(object, "unseen", ledger, ledger->unseen);
        put_number(object, "stalled", snapshot->stalled[i]);
        put_bool(object, "reconciled", ledger->reconciled);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *ledger_object(const struct snapshot *snapshot) {
    struct ledger sum = {.known = true, .reconciled = true};
    json_t *object = json_object();

    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        ledger_add(&sum, &snapshot->ledgers[i]);
    put_bool(object, "reconciled", sum.reconciled);
    put_number(object, "difference", sum.difference);
    put_known(object, "lost", &sum, sum.lost);
    return object;
}

static json_t *counts_object(const uint64_t *counts) {
    json_t *object = json_object();

    for (int i = 0; i < COUNT_COUNT; i++)
        put_number(object, counts_name((enum count)i), counts[i]);
    return object;
}

static json_t *arguments_array(const struct control_self *self) {
    json_t *array = json_array();

    for (size_t i = 0; i < self->argument_count; i++)
        json_array_append_new(array, json_string(self->arguments[i]));
    return array;
}

char *control_answer_status(const struct control_self *self, const struct snapshot *snapshot,
                            enum log_level level, const uint64_t *counts) {
    json_t *object = answer(true);

    put_string(object, "program", OPTIONS_PROGRAM);
    put_string(object, "version", OPTIONS_VERSION);
    put_number(object, "pid", (uint64_t)self->pid);
    put_number(object, "uid", self->uid);
    put_string(object, "executable", self->executable);
    put(object, "arguments", arguments_array(self));
    put_number(object, "time_ms", snapshot->time_ms);
    put_number(object, "started_ms", snapshot->started_ms);
    put_string(object, "backend", options_backend_name(snapshot->options->backend));
    put(object, "policy", policy_object(snapshot));
    put(object, "queues", queues_array(snapshot));
    put(object, "ledger", ledger_object(snapshot));
    put(object, "contract", snapshot->contract ? contract_array(snapshot->contract) : json_array());
    put_string(object, "reload_error", snapshot->reload_error);
    put_string(object, "log_level", log_level_name(level));
    put(object, "counts", counts_object(counts));
    return line_of(object);
}

char *control_answer_stats(const char *report) {
    char *line = NULL;

    // The report is an object of its own, on a line.
    return asprintf(&line, "{\"ok\":true,%s", report + strlen("{")) < 0 ? NULL : line;
}

static json_t *counters_array(const struct snapshot_rule *rule) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < rule->counter_count; i++) {
        json_t *object = json_object();

        put_number(object, "statement", rule->counters[i].statement);
        put_number(object, "packets", rule->counters[i].packets);
        put_number(object, "bytes", rule->counters[i].bytes);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *logs_array(const struct snapshot_rule *rule) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < rule->log_count; i++) {
        json_t *object = json_object();

        put_number(object, "statement", rule->logs[i].statement);
        put_number(object, "packets", rule->logs[i].packets);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *rule_object(const struct snapshot_rule *rule) {
    json_t *object = json_object();

    put_string(object, "rule", rule->rule);
    put_string(object, "table", rule->table);
    put_string(object, "chain", rule->chain);
    put_string(object, "text", rule->text);
    put_string(object, "comment", rule->comment);
    put(object, "counters", counters_array(rule));
    put(object, "logs", logs_array(rule));
    return object;
}

char *control_answer_rules(const struct snapshot *snapshot) {
    json_t *object = answer(true);
    json_t *rules = json_array();

    for (uint32_t i = 0; i < snapshot->rule_count; i++)
        json_array_append_new(rules, rule_object(&snapshot->rules[i]));
    put_number(object, "generation", snapshot->generation);
    put(object, "rules", rules);
    return line_of(object);
}

char *control_answer_reload(const struct reload_result *result) {
    json_t *object = answer(true);

    put_number(object, "generation", result->generation);
    put_number(object, "rules", result->rules);
    put_number(object, "kept", result->kept);
    put_number(object, "added", result->added);
    put_number(object, "removed", result->removed);
    put_number(object, "milliseconds", result->milliseconds);
    return line_of(object);
}

char *control_answer_log(enum log_level level, enum log_level was) {
    json_t *object = answer(true);

    put_string(object, "level", log_level_name(level));
    put_string(object, "was", log_level_name(was));
    return line_of(object);
}

char *control_answer_proof(uint32_t port, uint64_t number) {
    json_t *object = answer(true);

    put_number(object, "port", port);
    put_number(object, "number", number);
    return line_of(object);
}

char *control_answer_drain(uint32_t seconds, uint64_t waiting) {
    json_t *object = answer(true);

    put_number(object, "seconds", seconds);
    put_number(object, "waiting", waiting);
    return line_of(object);
}
