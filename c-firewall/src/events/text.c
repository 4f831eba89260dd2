// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/text.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "base/object.h"
#include "events/headers.h"
#include "explain/describe.h"
#include "options/options.h"
#include "policy/print.h"
#include "policy/value.h"

enum {
    LINKTYPE_RAW = 101,
};

static void put_timestamp(json_t *object, uint64_t time_ns) {
    const time_t seconds = (time_t)(time_ns / 1000000000);
    char date[32], text[64];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%06u+0000", date, (unsigned)(time_ns % 1000000000 / 1000));
    object_put_string(object, "timestamp", text);
}

/// Where a rule stands.
static void put_rule_place(json_t *object, const struct policy *policy,
                           struct compile_place place) {
    const struct policy_rule *rule = describe_rule(policy, place);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out) {
        describe_place(out, policy, place);
        fclose(out);
        object_put_text(object, "rule", text);
    }
    if (rule->comment)
        object_put_string(object, "comment", rule->comment);
}

static void put_chain_place(json_t *object, const struct policy *policy,
                            struct compile_place place) {
    const struct policy_table *table = &policy->tables[place.table];
    char text[POLICY_NAME_BYTES + 16];

    snprintf(text, sizeof text, "%s %s", policy_family_name(table->family), table->name);
    object_put_string(object, "table", text);
    object_put_string(object, "chain", table->chains[place.chain].name);
}

/// What gave the verdict.
static void put_by(json_t *object, const struct event_text *text) {
    static const char *const names[] = {
        [DECIDE_BY_RULE] = "rule",           [DECIDE_BY_POLICY] = "policy",
        [DECIDE_BY_DEFAULT] = "default",     [DECIDE_BY_FAIL] = "fail",
        [DECIDE_BY_UNDECIDED] = "undecided", [DECIDE_BY_CONNECTION] = "connection",
    };
    const struct decide_outcome *outcome = &text->event->outcome;

    object_put_string(object, "by", names[outcome->by]);
    if (!text->policy)
        return;
    if (outcome->by == DECIDE_BY_RULE) {
        const struct compile_place place = compile_rule_at(text->compiled, outcome->rule);

        put_rule_place(object, text->policy, place);
        put_chain_place(object, text->policy, place);
    } else if (outcome->by == DECIDE_BY_POLICY) {
        put_chain_place(object, text->policy, compile_chain_at(text->compiled, outcome->chain));
    }
}

/// The end of our own object.
static void put_own(json_t *object, const struct event *event) {
    const struct decide_outcome *outcome = &event->outcome;
    const uint32_t mark = outcome->mark_set ? outcome->mark : event->mark;

    if (event->hook < POLICY_HOOK_COUNT)
        object_put_string(object, "hook", policy_hook_name((enum policy_hook)event->hook));
    object_put_number(object, "queue", event->queue);
    if (event->generation > 0)
        object_put_number(object, "generation", event->generation);
    if (outcome->mark_set || mark != 0)
        object_put_number(object, "mark", mark);
}

/// Encodes bytes (RFC 4648 section 4). Returns text.
static const char *base64(const uint8_t *bytes, size_t count,
                          char text[static(EVENT_PACKET_BYTES + 2) / 3 * 4 + 1]) {
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    enum { PADDING = 64 };
    char *to = text;

    for (size_t i = 0; i < count; i += 3) {
        const uint32_t second = i + 1 < count ? bytes[i + 1] : 0;
        const uint32_t third = i + 2 < count ? bytes[i + 2] : 0;
        const uint32_t group = (uint32_t)bytes[i] << 16 | second << 8 | third;

        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = digits[i + 1 < count ? group >> 6 & 63 : PADDING];
        *to++ = digits[i + 2 < count ? group & 63 : PADDING];
    }
    *to = '\0';
    return text;
}

static json_t *known(bool is_known, uint32_t value) {
    return is_known ? json_integer(value) : json_null();
}

/// All that the policy could ask about a packet besides its bytes.
static json_t *input_object(const struct event_text *text) {
    const struct event *event = text->event;
    json_t *object = json_object();

    object_put_number(object, "length", event->length);
    object_put_number(object, "captured", event->captured);
    object_put_number(object, "ethertype", event->ethertype);
    object_put_number(object, "hook", event->hook);
    object_put_number(object, "iif", event->iif);
    object_put_string(object, "iifname", text->iifname);
    object_put_number(object, "oif", event->oif);
    object_put_string(object, "oifname", text->oifname);
    object_put_number(object, "mark", event->mark);
    object_put(object, "uid", known(event->has_uid, event->uid));
    object_put(object, "gid", known(event->has_gid, event->gid));
    if (event->has_ct_state)
        object_put_text(object, "ct_state", print_value(POLICY_CT_STATE, event->ct_state));
    else
        object_put(object, "ct_state", json_null());
    object_put(object, "ct_mark", known(event->has_ct_mark, event->ct_mark));
    object_put_string(object, "status", packet_status_name(event->status));
    object_put_bool(object, "truncated", event->truncated);
    return object;
}

static void put_packet_object(json_t *object, const struct event_text *text) {
    char encoded[(EVENT_PACKET_BYTES + 2) / 3 * 4 + 1];
    json_t *info = json_object();

    object_put_string(object, "packet", base64(text->event->bytes, text->event->captured, encoded));
    object_put_number(info, "linktype", LINKTYPE_RAW);
    object_put(object, "packet_info", info);
    object_put(object, "input", input_object(text));
}

/// An object as it begins, up to the type's own.
static json_t *begin_line(const struct event_text *text, const struct packet *packet,
                          const char *type) {
    const uint64_t flow = events_headers_flow_id(packet);
    json_t *object = json_object();

    put_timestamp(object, text->event->time_ns);
    if (flow != 0)
        object_put_number(object, "flow_id", flow);
    if (*text->iifname)
        object_put_string(object, "in_iface", text->iifname);
    if (*text->oifname)
        object_put_string(object, "out_iface", text->oifname);
    object_put_string(object, "event_type", type);
    events_headers_put_tuple(object, packet);
    return object;
}

static bool is_anomaly(const struct event *event) {
    return event_classes(event->status, event->truncated, &event->outcome) & EVENT_ANOMALY;
}

static json_t *anomaly_object(const struct event *event) {
    const char *name = event->truncated             ? "truncated"
                       : event->outcome.undecidable ? "undecidable"
                                                    : packet_status_name(event->status);
    json_t *object = json_object();
    char text[64];

    snprintf(text, sizeof text, "decoder.%s", name);
    object_put_string(object, "type", "decode");
    object_put_string(object, "event", text);
    return object;
}

/// What Suricata calls the reason of a drop.
static const char *reason_of(enum decide_by by) {
    return by == DECIDE_BY_RULE ? "rules" : "default packet policy";
}

static json_t *verdict_object(const struct event *event, const struct packet *packet) {
    json_t *object = json_object();

    events_headers_put_layers(object, packet);
    if (event->outcome.verdict == VERDICT_DROP)
        object_put_string(object, "reason", reason_of(event->outcome.by));
    if (event->outcome.verdict == VERDICT_REJECT) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);

        if (out) {
            describe_reply(out, &event->outcome.reject, packet->version);
            fclose(out);
            object_put_text(object, "reply", text);
        }
    }
    return object;
}

char *events_text_packet(const struct event_text *text, bool packet) {
    const struct event *event = text->event;
    const struct packet parsed = event_packet(event);
    const char *verdict = verdict_name(event->outcome.verdict);
    const char *type = is_anomaly(event) ? "anomaly" : verdict;
    json_t *object = begin_line(text, &parsed, type), *own = json_object();

    object_put(object, type,
               is_anomaly(event) ? anomaly_object(event) : verdict_object(event, &parsed));
    object_put_string(own, "verdict", verdict);
    put_by(own, text);
    put_own(own, event);
    object_put(object, "twinwall", own);
    if (packet)
        put_packet_object(object, text);
    return object_line(object);
}

char *events_text_log(const struct event_text *text, uint32_t log) {
    const struct event *event = text->event;
    const struct packet parsed = event_packet(event);
    const struct compile_place place = compile_log_at(text->compiled, event->outcome.logs[log]);
    const struct policy_log *said = describe_statement(text->policy, place)->log;
    const bool accepted = event->outcome.verdict == VERDICT_ACCEPT;
    json_t *object = begin_line(text, &parsed, "log"), *own = json_object(), *type = json_object();

    object_put_string(type, "action", accepted ? "allowed" : "blocked");
    object_put_string(type, "prefix", said->prefix);
    object_put_string(type, "level", value_level_name(said->level));
    events_headers_put_layers(type, &parsed);
    object_put(object, "log", type);
    object_put_string(own, "verdict", verdict_name(event->outcome.verdict));
    put_rule_place(own, text->policy, place);
    put_chain_place(own, text->policy, place);
    object_put_number(own, "statement", place.statement);
    put_own(own, event);
    object_put(object, "twinwall", own);
    return object_line(object);
}

char *events_text_own_line(uint64_t time_ns, enum events_kind kind,
                           const struct events_facts *facts) {
    const struct events_names *names = &events_names[kind];
    json_t *object = json_object(), *own = json_object();

    put_timestamp(object, time_ns);
    object_put_string(object, "event_type", "twinwall");
    object_put_string(own, "event", names->name);
    object_put_string(own, "program", OPTIONS_PROGRAM);
    object_put_string(own, "version", OPTIONS_VERSION);
    if (facts && facts->text)
        object_put_string(own, "text", facts->text);
    for (size_t i = 0; facts && names->figures[i]; i++)
        object_put_number(own, names->figures[i], facts->figures[i]);
    object_put(object, "twinwall", own);
    return object_line(object);
}
