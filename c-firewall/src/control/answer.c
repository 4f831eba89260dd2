// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/answer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counts.h"
#include "base/object.h"
#include "events/text.h"
#include "guard/guard.h"
#include "policy/print.h"
#include "state/contract.h"
#include "state/report_policy.h"

enum { NS_PER_MS = 1000 * 1000 };

/// Returns a new answer that holds only the key "ok".
static json_t *answer(bool ok) {
    json_t *object = json_object();

    object_put_bool(object, "ok", ok);
    return object;
}

char *control_answer_error(const char *text) {
    json_t *object = answer(false);

    object_put_string(object, "error", text);
    return object_line(object);
}

static json_t *policy_object(const struct snapshot *snapshot) {
    const char *tracked = tracked_name(snapshot->tracked);
    json_t *object;

    if (!snapshot->policy_file)
        return json_null();
    object = json_object();
    object_put_string(object, "file", snapshot->policy_file);
    object_put_number(object, "generation", snapshot->generation);
    object_put_number(object, "loaded_ms", snapshot->loaded_ms);
    object_put_number(object, "chains", snapshot->chain_count);
    object_put_number(object, "rules", snapshot->rule_count);
    object_put(object, "requirement", report_policy_requirement_object(&snapshot->requirement));
    object_put_string(object, "ct_state", tracked);
    object_put_number(object, "learned", snapshot->learned);
    return object;
}

/// Adds a value that depends on the kernel's counters of a queue; null if these counters are
/// unknown.
static void put_known(json_t *object, const char *key, const struct ledger *ledger,
                      uint64_t value) {
    object_put(object, key, ledger->known ? json_integer((json_int_t)value) : json_null());
}

static json_t *queues_array(const struct snapshot *snapshot) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < snapshot->ledger_count; i++) {
        const struct ledger *ledger = &snapshot->ledgers[i];
        json_t *object = json_object();

        object_put_number(object, "queue", ledger->number);
        put_known(object, "waiting", ledger, ledger->waiting);
        object_put_number(object, "queue_length", snapshot->options->queue_length);
        object_put_number(object, "received", ledger->stats.received);
        put_known(object, "queue_full", ledger, ledger->queue_full);
        put_known(object, "user_drop", ledger, ledger->user_drop);
        put_known(object, "unseen", ledger, ledger->unseen);
        object_put_number(object, "stalled", snapshot->stalled[i]);
        object_put_bool(object, "reconciled", ledger->reconciled);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *ledger_object(const struct snapshot *snapshot) {
    struct ledger sum = {.known = true, .reconciled = true};
    json_t *object = json_object();

    for (uint32_t i = 0; i < snapshot->ledger_count; i++)
        ledger_add(&sum, &snapshot->ledgers[i]);
    object_put_bool(object, "reconciled", sum.reconciled);
    object_put_number(object, "difference", sum.difference);
    put_known(object, "lost", &sum, sum.lost);
    return object;
}

static json_t *counts_object(const uint64_t *counts) {
    json_t *object = json_object();

    for (int i = 0; i < COUNT_COUNT; i++)
        object_put_number(object, counts_name((enum count)i), counts[i]);
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

    object_put_string(object, "program", OPTIONS_PROGRAM);
    object_put_string(object, "version", OPTIONS_VERSION);
    object_put_number(object, "pid", (uint64_t)self->pid);
    object_put_number(object, "uid", self->uid);
    object_put_string(object, "executable", self->executable);
    object_put(object, "arguments", arguments_array(self));
    object_put_number(object, "time_ms", snapshot->time_ms);
    object_put_number(object, "started_ms", snapshot->started_ms);
    object_put_number(object, "uptime_ms", snapshot->uptime_ms);
    object_put_string(object, "backend", options_backend_name(snapshot->options->backend));
    object_put(object, "policy", policy_object(snapshot));
    object_put(object, "queues", queues_array(snapshot));
    object_put(object, "ledger", ledger_object(snapshot));
    object_put(object, "contract",
               snapshot->contract ? contract_array(snapshot->contract) : json_array());
    object_put(object, "guard",
               guard_wanted(snapshot->options) ? json_boolean(!snapshot->guard_ended)
                                               : json_null());
    object_put_string(object, "reload_error", snapshot->reload_error);
    object_put_string(object, "log_level", log_level_name(level));
    object_put(object, "counts", counts_object(counts));
    return object_line(object);
}

char *control_answer_stats(const char *report) {
    char *line = NULL;

    // The report is a JSON object on a line; "ok" becomes its first key.
    return asprintf(&line, "{\"ok\":true,%s", report + strlen("{")) < 0 ? NULL : line;
}

static json_t *counters_array(const struct snapshot_rule *rule) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < rule->counter_count; i++) {
        json_t *object = json_object();

        object_put_number(object, "statement", rule->counters[i].statement);
        object_put_number(object, "packets", rule->counters[i].packets);
        object_put_number(object, "bytes", rule->counters[i].bytes);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *logs_array(const struct snapshot_rule *rule) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < rule->log_count; i++) {
        json_t *object = json_object();

        object_put_number(object, "statement", rule->logs[i].statement);
        object_put_number(object, "packets", rule->logs[i].packets);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *rule_object(const struct snapshot_rule *rule) {
    json_t *object = json_object();

    object_put_string(object, "rule", rule->rule);
    object_put_string(object, "table", rule->table);
    object_put_string(object, "chain", rule->chain);
    object_put_string(object, "text", rule->text);
    object_put_string(object, "comment", rule->comment);
    object_put(object, "counters", counters_array(rule));
    object_put(object, "logs", logs_array(rule));
    return object;
}

char *control_answer_rules(const struct snapshot *snapshot) {
    json_t *object = answer(true);
    json_t *rules = json_array();

    for (uint32_t i = 0; i < snapshot->rule_count; i++)
        json_array_append_new(rules, rule_object(&snapshot->rules[i]));
    object_put_number(object, "generation", snapshot->generation);
    object_put(object, "rules", rules);
    return object_line(object);
}

/// Adds address and port of one end of a connection.
/// - is_low: true for the end that comes first in the connection's key.
static void put_end(json_t *object, const char *key, const struct listed *listed, bool is_low) {
    const uint64_t *words = listed->key.words;
    const bool is_ipv4 = (words[0] >> 8 & 0xff) == 4;
    char port[sizeof "client_port"];
    policy_value value;

    if (is_ipv4)
        value = is_low ? words[1] >> 32 : words[1] & UINT32_MAX;
    else
        value = is_low ? (policy_value)words[1] << 64 | words[2]
                       : (policy_value)words[3] << 64 | words[4];
    object_put_text(object, key, print_value(is_ipv4 ? POLICY_IPV4_ADDR : POLICY_IPV6_ADDR, value));
    snprintf(port, sizeof port, "%s_port", key);
    object_put_number(object, port, words[0] >> (is_low ? 48 : 32) & 0xffff);
}

static const char *state_name(enum listed_state state) {
    static const char *const names[] = {
        [LISTED_UNDECIDED] = "undecided", [LISTED_NAMED] = "named",
        [LISTED_MISSING] = "missing",     [LISTED_DENIED] = "denied",
        [LISTED_UNKNOWN] = "unknown",
    };

    return names[state];
}

/// Returns the name of the protocol in which the client sends names; NULL if it is another
/// protocol, or if the names are not known.
static const char *protocol_name(enum names_protocol protocol) {
    static const char *const names[] = {
        [NAMES_OTHER] = NULL,  [NAMES_TLS] = "tls", [NAMES_QUIC] = "quic",
        [NAMES_HTTP] = "http", [NAMES_DNS] = "dns",
    };

    return names[protocol];
}

static json_t *connection_object(const struct listed *listed, uint16_t queue) {
    char *name = events_text_shown(listed->host, listed->host_length);
    json_t *object = json_object();

    object_put_number(object, "queue", queue);
    object_put_string(object, "protocol", listed->is_udp ? "udp" : "tcp");
    put_end(object, "client", listed, listed->client_low);
    put_end(object, "server", listed, !listed->client_low);
    object_put_string(object, "state", state_name(listed->state));
    object_put_string(object, "shows", protocol_name(listed->protocol));
    object_put_string(object, "name", name);
    object_put_number(object, "age_ms", listed->age_ns / NS_PER_MS);
    free(name);
    return object;
}

char *control_answer_connections(const struct listing *listing) {
    json_t *object = answer(true), *connections = json_array();

    for (uint32_t i = 0; i < listing->page->count; i++)
        json_array_append_new(connections,
                              connection_object(&listing->page->listed[i], listing->number));
    object_put(object, "connections", connections);
    object_put(object, "next",
               listing->has_next ? json_integer((json_int_t)listing->next) : json_null());
    return object_line(object);
}

char *control_answer_reload(const struct reload_result *result) {
    json_t *object = answer(true);

    object_put_number(object, "generation", result->generation);
    object_put_number(object, "rules", result->rules);
    object_put_number(object, "kept", result->kept);
    object_put_number(object, "added", result->added);
    object_put_number(object, "removed", result->removed);
    object_put_number(object, "milliseconds", result->milliseconds);
    return object_line(object);
}

char *control_answer_log(enum log_level level, enum log_level was) {
    json_t *object = answer(true);

    object_put_string(object, "level", log_level_name(level));
    object_put_string(object, "was", log_level_name(was));
    return object_line(object);
}

char *control_answer_proof(uint32_t port, uint64_t number) {
    json_t *object = answer(true);

    object_put_number(object, "port", port);
    object_put_number(object, "number", number);
    return object_line(object);
}

char *control_answer_drain(uint32_t seconds, uint64_t waiting) {
    json_t *object = answer(true);

    object_put_number(object, "seconds", seconds);
    object_put_number(object, "waiting", waiting);
    return object_line(object);
}
