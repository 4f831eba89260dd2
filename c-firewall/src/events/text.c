// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/text.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void write_string(json_t *object, const char *name, const struct event_string *string) {
    if (string->made)
        object_put_text(object, name, string->made);
    else
        object_put_string(object, name, string->text);
}

static void write_figures(json_t *object, const struct event_figures *figures) {
    for (size_t i = 0; figures->values && figures->names[i]; i++)
        object_put_number(object, figures->names[i], figures->values[i]);
}

/// Returns true if a member has a value.
/// - at: the member's field in the struct.
static bool is_known(enum event_type type, const void *at) {
    const struct event_string *string = at;

    switch (type) {
    case EVENT_TYPE_STRING:
        return string->text || string->made;
    case EVENT_TYPE_NUMBER:
    case EVENT_TYPE_BOOLEAN:
        return ((const struct event_number *)at)->known;
    case EVENT_TYPE_OBJECT:
        return *(const void *const *)at;
    default:
        return true;
    }
}

/// Adds the members of an object, in their order, and frees their allocated texts.
/// - values: struct that members describes.
// Recursion ends: objects are nested no deeper than in spec/events.toml.
// NOLINTNEXTLINE(misc-no-recursion)
static void write_members(json_t *object, const struct event_member *members, const void *values) {
    for (const struct event_member *member = members; member->name; member++) {
        const void *at = (const uint8_t *)values + member->offset;
        json_t *inner;

        if (!is_known(member->type, at)) {
            if (member->null)
                object_put(object, member->name, json_null());
            continue;
        }
        switch (member->type) {
        case EVENT_TYPE_STRING:
            write_string(object, member->name, at);
            break;
        case EVENT_TYPE_NUMBER:
            object_put_number(object, member->name, ((const struct event_number *)at)->value);
            break;
        case EVENT_TYPE_BOOLEAN:
            object_put_bool(object, member->name, ((const struct event_number *)at)->value);
            break;
        case EVENT_TYPE_FIGURES:
            write_figures(object, at);
            break;
        case EVENT_TYPE_OBJECT:
            inner = json_object();
            write_members(inner, member->members, *(const void *const *)at);
            object_put(object, member->name, inner);
            break;
        case EVENT_TYPE_MEMBERS:
            write_members(object, member->members, at);
            break;
        }
    }
}

/// Returns a JSON object with these members as one line.
static char *write_line(const struct event_member *members, const void *values) {
    json_t *object = json_object();

    write_members(object, members, values);
    return object_line(object);
}

static struct event_string timestamp(uint64_t time_ns) {
    const time_t seconds = (time_t)(time_ns / 1000000000);
    char date[32], text[64];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%06u+0000", date, (unsigned)(time_ns % 1000000000 / 1000));
    return (struct event_string){.made = strdup(text)};
}

/// Adds the position and the comment of a rule.
static void fill_rule_place(struct event_twinwall *own, const struct policy *policy,
                            struct compile_place place) {
    size_t length;
    FILE *out = open_memstream(&own->rule.made, &length);

    if (out) {
        describe_place(out, policy, place);
        fclose(out);
    }
    own->comment.text = describe_rule(policy, place)->comment;
}

static void fill_chain_place(struct event_twinwall *own, const struct policy *policy,
                             struct compile_place place) {
    const struct policy_table *table = &policy->tables[place.table];
    char text[POLICY_NAME_BYTES + 16];

    snprintf(text, sizeof text, "%s %s", policy_family_name(table->family), table->name);
    own->table.made = strdup(text);
    own->chain.text = table->chains[place.chain].name;
}

/// Adds the source of the verdict: a rule, a chain's policy, an option, or a refused connection.
static void fill_by(struct event_twinwall *own, const struct event_text *text) {
    static const char *const names[] = {
        [DECIDE_BY_RULE] = "rule",           [DECIDE_BY_POLICY] = "policy",
        [DECIDE_BY_DEFAULT] = "default",     [DECIDE_BY_FAIL] = "fail",
        [DECIDE_BY_UNDECIDED] = "undecided", [DECIDE_BY_CONNECTION] = "connection",
    };
    const struct decide_outcome *outcome = &text->event->outcome;

    own->by.text = names[outcome->by];
    if (!text->policy)
        return;
    if (outcome->by == DECIDE_BY_RULE) {
        const struct compile_place place = compile_rule_at(text->compiled, outcome->rule);

        fill_rule_place(own, text->policy, place);
        fill_chain_place(own, text->policy, place);
    } else if (outcome->by == DECIDE_BY_POLICY) {
        fill_chain_place(own, text->policy, compile_chain_at(text->compiled, outcome->chain));
    }
}

/// Adds a packet's members of the object `twinwall`: verdict, hook and queue, and generation and
/// mark if they are set.
static void fill_own(struct event_twinwall *own, const struct event *event) {
    const struct decide_outcome *outcome = &event->outcome;
    const uint32_t mark = outcome->mark_set ? outcome->mark : event->mark;

    own->verdict.text = verdict_name(outcome->verdict);
    if (event->hook < POLICY_HOOK_COUNT)
        own->hook.text = policy_hook_name((enum policy_hook)event->hook);
    own->queue = event_number(event->queue);
    if (event->generation > 0)
        own->generation = event_number(event->generation);
    if (outcome->mark_set || mark != 0)
        own->mark = event_number(mark);
}

/// Encodes bytes in base64 (RFC 4648 section 4).
static struct event_string base64(const uint8_t *bytes, size_t count) {
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    enum { PADDING = 64 };
    char *const text = malloc((count + 2) / 3 * 4 + 1);
    char *to = text;

    if (!text)
        return (struct event_string){0};
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
    return (struct event_string){.made = text};
}

/// Returns the object `input` of a packet's line: the packet's metadata.
static struct event_input input_of(const struct event_text *text) {
    const struct event *event = text->event;

    return (struct event_input){
        .length = event_number(event->length),
        .captured = event_number(event->captured),
        .ethertype = event_number(event->ethertype),
        .hook = event_number(event->hook),
        .iif = event_number(event->iif),
        .iifname.text = text->iifname,
        .oif = event_number(event->oif),
        .oifname.text = text->oifname,
        .mark = event_number(event->mark),
        .uid = {event->has_uid, event->uid},
        .gid = {event->has_gid, event->gid},
        .ct_state.made = event->has_ct_state ? print_value(POLICY_CT_STATE, event->ct_state) : NULL,
        .ct_mark = {event->has_ct_mark, event->ct_mark},
        .status.text = packet_status_name(event->status),
        .truncated = event_number(event->truncated),
    };
}

/// Storage for the objects within a line of a packet.
struct objects {
    struct event_twinwall own;
    union {
        struct event_accept accept;
        struct event_drop drop;
        struct event_reject reject;
        struct event_anomaly anomaly;
    };
    union {
        struct event_tls tls;
        struct event_quic quic;
        struct event_http http;
        struct event_dns dns;
    };
    struct event_packet_info packet_info;
    struct event_input input;
};

static void fill_packet(struct event_line *line, struct objects *objects,
                        const struct event_text *text) {
    objects->packet_info = (struct event_packet_info){.linktype = event_number(LINKTYPE_RAW)};
    objects->input = input_of(text);
    line->packet = base64(text->event->bytes, text->event->captured);
    line->packet_info = &objects->packet_info;
    line->input = &objects->input;
}

char *events_text_shown(const uint8_t *name, size_t length) {
    char *text = length > 0 ? malloc(length + 1) : NULL;

    for (size_t i = 0; text && i < length; i++)
        text[i] = (char)(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?');
    if (text)
        text[length] = '\0';
    return text;
}

/// Returns the highest TLS version that a client offers; NULL if it offers none.
static char *version_of(const struct names *names) {
    char *version = print_value(POLICY_TLS_VERSION, names->version), *text = NULL;

    if (names->version != 0 && version && asprintf(&text, "TLS %s", version) < 0)
        text = NULL;
    free(version);
    return text;
}

/// Returns the type of a DNS query, in capital letters.
static char *type_of(const struct names *names) {
    char *text = print_value(POLICY_DNS_TYPE, names->dns_type);

    for (char *at = text; at && *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
    return text;
}

/// Adds the names that the packet's client has shown, in the object of its protocol.
static void fill_names(struct event_line *line, struct objects *objects,
                       const struct names *names) {
    char *host, *method;

    if (names->state != NAMES_KNOWN || names->protocol == NAMES_OTHER)
        return;
    host = events_text_shown(names->host, names->host_length);
    switch (names->protocol) {
    case NAMES_TLS:
        objects->tls = (struct event_tls){.sni.made = host, .version.made = version_of(names)};
        line->tls = &objects->tls;
        return;
    case NAMES_QUIC:
        objects->quic = (struct event_quic){.sni.made = host};
        line->quic = &objects->quic;
        return;
    case NAMES_HTTP:
        method = events_text_shown(names->method, names->method_length);
        objects->http =
            (struct event_http){.hostname.made = host, .http_method = {method ? NULL : "", method}};
        line->http = &objects->http;
        return;
    default: // a DNS query: there is no other protocol
        objects->dns = (struct event_dns){.type.text = "query",
                                          .rrname = {host ? NULL : "", host},
                                          .rrtype.made = type_of(names)};
        line->dns = &objects->dns;
        return;
    }
}

/// Returns the beginning of a line: the members before the members of its event type.
static struct event_line begin_line(const struct event_text *text, const struct packet *packet,
                                    struct objects *objects, const char *name) {
    const uint64_t flow = events_headers_flow_id(packet);
    struct event_line line = {
        .timestamp = timestamp(text->event->time_ns),
        .flow_id = {flow != 0, flow},
        .in_iface.text = *text->iifname ? text->iifname : NULL,
        .out_iface.text = *text->oifname ? text->oifname : NULL,
        .event_type.text = name,
    };

    events_headers_fill_tuple(&line, packet);
    fill_names(&line, objects, &text->event->names);
    return line;
}

static bool is_anomaly(const struct event *event) {
    return event_classes(event->status, event->truncated, &event->outcome) & EVENT_ANOMALY;
}

static struct event_anomaly anomaly_of(const struct event *event) {
    const char *name = event->truncated             ? "truncated"
                       : event->outcome.undecidable ? "undecidable"
                                                    : packet_status_name(event->status);
    char text[64];

    snprintf(text, sizeof text, "decoder.%s", name);
    return (struct event_anomaly){.type.text = "decode", .event.made = strdup(text)};
}

/// Returns Suricata's name of the reason for a drop.
static const char *reason_of(enum decide_by by) {
    return by == DECIDE_BY_RULE ? "rules" : "default packet policy";
}

/// Adds the JSON object that describes the verdict, under the verdict's name.
static void fill_verdict(struct event_line *line, struct objects *objects,
                         const struct event *event, const struct packet *parsed) {
    struct event_headers headers = {0};
    size_t length;
    FILE *out;

    events_headers_fill_layers(&headers, parsed);
    switch (event->outcome.verdict) {
    case VERDICT_DROP:
        objects->drop = (struct event_drop){headers, {.text = reason_of(event->outcome.by)}};
        line->drop = &objects->drop;
        break;
    case VERDICT_REJECT:
        objects->reject = (struct event_reject){.headers = headers};
        out = open_memstream(&objects->reject.reply.made, &length);
        if (out) {
            describe_reply(out, &event->outcome.reject, parsed->version);
            fclose(out);
        }
        line->reject = &objects->reject;
        break;
    default: // accept: there is no other verdict
        objects->accept = (struct event_accept){headers};
        line->accept = &objects->accept;
        break;
    }
}

char *events_text_packet(const struct event_text *text, bool packet) {
    const struct event *event = text->event;
    const struct packet parsed = event_packet(event);
    struct objects objects = {0};
    struct event_line line;

    if (is_anomaly(event)) {
        line = begin_line(text, &parsed, &objects, "anomaly");
        objects.anomaly = anomaly_of(event);
        line.anomaly = &objects.anomaly;
    } else {
        line = begin_line(text, &parsed, &objects, verdict_name(event->outcome.verdict));
        fill_verdict(&line, &objects, event, &parsed);
    }
    fill_by(&objects.own, text);
    fill_own(&objects.own, event);
    line.twinwall = &objects.own;
    if (packet)
        fill_packet(&line, &objects, text);
    return write_line(event_line_members, &line);
}

char *events_text_log(const struct event_text *text, uint32_t log) {
    const struct event *event = text->event;
    const struct packet parsed = event_packet(event);
    const struct compile_place place = compile_log_at(text->compiled, event->outcome.logs[log]);
    const struct policy_log *said = describe_statement(text->policy, place)->log;
    const bool accepted = event->outcome.verdict == VERDICT_ACCEPT;
    struct objects objects = {0};
    struct event_line line = begin_line(text, &parsed, &objects, "log");
    struct event_log object = {
        .action.text = accepted ? "allowed" : "blocked",
        .prefix.text = said->prefix,
        .level.text = value_level_name(said->level),
    };
    struct event_twinwall own = {.statement = event_number(place.statement)};

    events_headers_fill_layers(&object.headers, &parsed);
    line.log = &object;
    fill_rule_place(&own, text->policy, place);
    fill_chain_place(&own, text->policy, place);
    fill_own(&own, event);
    line.twinwall = &own;
    return write_line(event_line_members, &line);
}

char *events_text_own_line(uint64_t time_ns, enum events_kind kind,
                           const struct events_facts *facts) {
    const struct events_names *names = &events_names[kind];
    const struct event_own own = {
        .event.text = names->name,
        .program.text = OPTIONS_PROGRAM,
        .version.text = OPTIONS_VERSION,
        .text.text = facts ? facts->text : NULL,
        .figures = {names->figures, facts ? facts->figures : NULL},
    };
    const struct event_own_line line = {
        .timestamp = timestamp(time_ns),
        .event_type.text = "twinwall",
        .twinwall = &own,
    };

    // write_members frees the timestamp.
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    return write_line(event_own_line_members, &line);
}
