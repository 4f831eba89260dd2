// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/text.h"

#include <jansson.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "explain/describe.h"
#include "options/options.h"
#include "policy/print.h"
#include "policy/value.h"

enum {
    FLOW_ID_BITS = 51, // a double holds them
    LINKTYPE_RAW = 101,
    TCP_URG = 0x20,
};

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static const char *kind_name(enum events_kind kind) {
    static const char *const names[] = {
        [EVENTS_STARTED] = "started", [EVENTS_STOPPED] = "stopped",
        [EVENTS_RELOAD] = "reload",   [EVENTS_RELOAD_FAILED] = "reload_failed",
        [EVENTS_STALL] = "stall",     [EVENTS_OVERLOAD] = "overload",
        [EVENTS_UPGRADE] = "upgrade", [EVENTS_LEFT_OUT] = "left_out",
        [EVENTS_LOST] = "lost",
    };

    return names[kind];
}

static void put(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, value);
}

static void put_number(json_t *object, const char *key, uint64_t value) {
    put(object, key, json_integer((json_int_t)value));
}

/// A text that is no UTF-8 gets question marks for all that is not ASCII.
static json_t *string_of(const char *text) {
    json_t *string = json_string(text);
    char *copy = string ? NULL : strdup(text);

    for (char *at = copy; at && *at; at++)
        if ((unsigned char)*at > 0x7f)
            *at = '?';
    if (copy)
        string = json_string(copy);
    free(copy);
    return string;
}

static void put_string(json_t *object, const char *key, const char *value) {
    put(object, key, string_of(value));
}

/// Takes a text that print made over.
static void put_text(json_t *object, const char *key, char *text) {
    put_string(object, key, text ? text : "");
    free(text);
}

/// The line of an object, which is taken over.
static char *line_of(json_t *object) {
    const size_t length = json_dumpb(object, NULL, 0, JSON_COMPACT | JSON_PRESERVE_ORDER);
    char *line = length > 0 ? malloc(length + 2) : NULL;

    if (line) {
        json_dumpb(object, line, length, JSON_COMPACT | JSON_PRESERVE_ORDER);
        memcpy(line + length, "\n", 2);
    }
    json_decref(object);
    return line;
}

static void put_timestamp(json_t *object, uint64_t time_ns) {
    const time_t seconds = (time_t)(time_ns / 1000000000);
    char date[32], text[64];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%06u+0000", date, (unsigned)(time_ns % 1000000000 / 1000));
    put_string(object, "timestamp", text);
}

static uint32_t be16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static uint32_t be32(const uint8_t *bytes) { return be16(bytes) << 16 | be16(bytes + 2); }

static uint32_t address_bytes(const struct packet *packet) { return packet->version == 4 ? 4 : 16; }

/// The two addresses, side by side; NULL if they are not known.
static const uint8_t *addresses_of(const struct packet *packet) {
    if (packet->version == 4 && packet->captured >= PACKET_IPV4_HEADER_BYTES)
        return packet->bytes + 12;
    if (packet->version == 6 && packet->captured >= PACKET_IPV6_HEADER_BYTES)
        return packet->bytes + 8;
    return NULL;
}

/// Goes on with a hash (FNV-1a).
static uint64_t hash(uint64_t so_far, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        so_far = (so_far ^ bytes[i]) * FNV_PRIME;
    return so_far;
}

static uint64_t hash_end(uint64_t so_far, const uint8_t *address, size_t bytes, uint16_t port) {
    const uint8_t end[] = {(uint8_t)(port >> 8), (uint8_t)port};

    return hash(hash(so_far, address, bytes), end, sizeof end);
}

uint64_t events_text_flow_id(const struct packet *packet) {
    const uint8_t *source = addresses_of(packet), *destination;
    const size_t bytes = address_bytes(packet);
    uint64_t flow;
    int order;

    if (!source)
        return 0;
    destination = source + bytes;
    order = memcmp(source, destination, bytes);
    if (order == 0)
        order = packet->source_port - packet->destination_port;
    flow = hash(FNV_OFFSET, &packet->protocol, 1);
    // The lower end first, so that both directions are one flow.
    if (order <= 0) {
        flow = hash_end(flow, source, bytes, packet->source_port);
        flow = hash_end(flow, destination, bytes, packet->destination_port);
    } else {
        flow = hash_end(flow, destination, bytes, packet->destination_port);
        flow = hash_end(flow, source, bytes, packet->source_port);
    }
    return (flow ^ flow >> FLOW_ID_BITS) & ((UINT64_C(1) << FLOW_ID_BITS) - 1);
}

/// Protocols as Suricata names them.
static void put_protocol_name(json_t *object, uint8_t protocol) {
    static const char *const names[UINT8_MAX + 1] = {
        [IPPROTO_ICMP] = "ICMP", [IPPROTO_IGMP] = "IGMP",        [IPPROTO_TCP] = "TCP",
        [IPPROTO_UDP] = "UDP",   [IPPROTO_GRE] = "GRE",          [IPPROTO_ESP] = "ESP",
        [IPPROTO_AH] = "AH",     [IPPROTO_ICMPV6] = "IPv6-ICMP", [IPPROTO_SCTP] = "SCTP",
    };
    char number[4];

    snprintf(number, sizeof number, "%03u", protocol);
    put_string(object, "proto", names[protocol] ? names[protocol] : number);
}

static void put_address(json_t *object, const char *key, const struct packet *packet,
                        const uint8_t *address) {
    policy_value value = 0;

    for (uint32_t i = 0; i < address_bytes(packet); i++)
        value = value << 8 | address[i];
    put_text(object, key,
             print_value(packet->version == 4 ? POLICY_IPV4_ADDR : POLICY_IPV6_ADDR, value));
}

/// The addresses and what follows from them.
static void put_tuple(json_t *object, const struct packet *packet) {
    const uint8_t *addresses = addresses_of(packet);

    if (!addresses)
        return;
    put_address(object, "src_ip", packet, addresses);
    if (packet->has_ports)
        put_number(object, "src_port", packet->source_port);
    put_address(object, "dest_ip", packet, addresses + address_bytes(packet));
    if (packet->has_ports)
        put_number(object, "dest_port", packet->destination_port);
    if (packet->end > 0)
        put_protocol_name(object, packet->protocol);
    if (packet->has_icmp) {
        put_number(object, "icmp_type", packet->icmp_type);
        put_number(object, "icmp_code", packet->icmp_code);
    }
}

static void put_ip(json_t *object, const struct packet *packet) {
    const uint8_t *ip = packet->bytes;

    put_number(object, "len", packet->original);
    if (!addresses_of(packet))
        return;
    if (packet->version == 4) {
        put_number(object, "tos", ip[1]);
        put_number(object, "ttl", ip[8]);
        put_number(object, "ipid", be16(ip + 4));
    } else {
        put_number(object, "tc", be16(ip) >> 4 & 0xff);
        put_number(object, "hoplimit", ip[7]);
        put_number(object, "flowlbl", be32(ip) & 0xfffff);
    }
}

static void put_tcp(json_t *object, const uint8_t *tcp) {
    static const struct {
        const char *name;
        uint8_t bit;
    } flags[] = {{"syn", TH_SYN}, {"ack", TH_ACK},  {"psh", TH_PUSH},
                 {"rst", TH_RST}, {"urg", TCP_URG}, {"fin", TH_FIN}};

    put_number(object, "tcpseq", be32(tcp + 4));
    put_number(object, "tcpack", be32(tcp + 8));
    put_number(object, "tcpwin", be16(tcp + 14));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        put(object, flags[i].name, json_boolean(tcp[13] & flags[i].bit));
    put_number(object, "tcpres", tcp[12] & 0x0f);
    put_number(object, "tcpurgp", be16(tcp + 18));
}

static bool is_echo(const struct packet *packet) {
    if (!packet->has_icmp)
        return false;
    if (packet->version == 4)
        return packet->icmp_type == ICMP_ECHO || packet->icmp_type == ICMP_ECHOREPLY;
    return packet->icmp_type == ICMP6_ECHO_REQUEST || packet->icmp_type == ICMP6_ECHO_REPLY;
}

static void put_layer4(json_t *object, const struct packet *packet) {
    const uint8_t *l4;
    uint32_t left;

    if (packet->l4_offset == 0 || packet->l4_offset >= packet->captured)
        return;
    l4 = packet->bytes + packet->l4_offset;
    left = packet->captured - packet->l4_offset;
    if (packet->protocol == IPPROTO_TCP && left >= PACKET_TCP_HEADER_BYTES)
        put_tcp(object, l4);
    else if (packet->protocol == IPPROTO_UDP && left >= PACKET_UDP_HEADER_BYTES)
        put_number(object, "udplen", be16(l4 + 4));
    else if (is_echo(packet) && left >= PACKET_ICMP_HEADER_BYTES) {
        put_number(object, "icmp_id", be16(l4 + 4));
        put_number(object, "icmp_seq", be16(l4 + 6));
    }
}

/// The packet's headers, as Suricata's drop records have them.
static void put_headers(json_t *object, const struct packet *packet) {
    put_ip(object, packet);
    put_layer4(object, packet);
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
        put_text(object, "rule", text);
    }
    if (rule->comment)
        put_string(object, "comment", rule->comment);
}

static void put_chain_place(json_t *object, const struct policy *policy,
                            struct compile_place place) {
    const struct policy_table *table = &policy->tables[place.table];
    char text[POLICY_NAME_BYTES + 16];

    snprintf(text, sizeof text, "%s %s", policy_family_name(table->family), table->name);
    put_string(object, "table", text);
    put_string(object, "chain", table->chains[place.chain].name);
}

/// What gave the verdict.
static void put_by(json_t *object, const struct event_text *text) {
    static const char *const names[] = {
        [DECIDE_BY_RULE] = "rule",
        [DECIDE_BY_POLICY] = "policy",
        [DECIDE_BY_DEFAULT] = "default",
        [DECIDE_BY_FAIL] = "fail",
    };
    const struct decide_outcome *outcome = &text->event->outcome;

    put_string(object, "by", names[outcome->by]);
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
        put_string(object, "hook", policy_hook_name((enum policy_hook)event->hook));
    put_number(object, "queue", event->queue);
    if (event->generation > 0)
        put_number(object, "generation", event->generation);
    if (outcome->mark_set || mark != 0)
        put_number(object, "mark", mark);
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

    put_number(object, "length", event->length);
    put_number(object, "captured", event->captured);
    put_number(object, "ethertype", event->ethertype);
    put_number(object, "hook", event->hook);
    put_number(object, "iif", event->iif);
    put_string(object, "iifname", text->iifname);
    put_number(object, "oif", event->oif);
    put_string(object, "oifname", text->oifname);
    put_number(object, "mark", event->mark);
    put(object, "uid", known(event->has_uid, event->uid));
    put(object, "gid", known(event->has_gid, event->gid));
    if (event->has_ct_state)
        put_text(object, "ct_state", print_value(POLICY_CT_STATE, event->ct_state));
    else
        put(object, "ct_state", json_null());
    put(object, "ct_mark", known(event->has_ct_mark, event->ct_mark));
    put_string(object, "status", packet_status_name(event->status));
    put(object, "truncated", json_boolean(event->truncated));
    return object;
}

static void put_packet_object(json_t *object, const struct event_text *text) {
    char encoded[(EVENT_PACKET_BYTES + 2) / 3 * 4 + 1];
    json_t *info = json_object();

    put_string(object, "packet", base64(text->event->bytes, text->event->captured, encoded));
    put_number(info, "linktype", LINKTYPE_RAW);
    put(object, "packet_info", info);
    put(object, "input", input_object(text));
}

/// An object as it begins, up to the type's own.
static json_t *begin_line(const struct event_text *text, const struct packet *packet,
                          const char *type) {
    const uint64_t flow = events_text_flow_id(packet);
    json_t *object = json_object();

    put_timestamp(object, text->event->time_ns);
    if (flow != 0)
        put_number(object, "flow_id", flow);
    if (*text->iifname)
        put_string(object, "in_iface", text->iifname);
    if (*text->oifname)
        put_string(object, "out_iface", text->oifname);
    put_string(object, "event_type", type);
    put_tuple(object, packet);
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
    put_string(object, "type", "decode");
    put_string(object, "event", text);
    return object;
}

/// What Suricata calls the reason of a drop.
static const char *reason_of(enum decide_by by) {
    return by == DECIDE_BY_RULE ? "rules" : "default packet policy";
}

static json_t *verdict_object(const struct event *event, const struct packet *packet) {
    json_t *object = json_object();

    put_headers(object, packet);
    if (event->outcome.verdict == VERDICT_DROP)
        put_string(object, "reason", reason_of(event->outcome.by));
    if (event->outcome.verdict == VERDICT_REJECT) {
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);

        if (out) {
            describe_reply(out, &event->outcome.reject, packet->version);
            fclose(out);
            put_text(object, "reply", text);
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

    put(object, type, is_anomaly(event) ? anomaly_object(event) : verdict_object(event, &parsed));
    put_string(own, "verdict", verdict);
    put_by(own, text);
    put_own(own, event);
    put(object, "twinwall", own);
    if (packet)
        put_packet_object(object, text);
    return line_of(object);
}

char *events_text_log(const struct event_text *text, uint32_t log) {
    const struct event *event = text->event;
    const struct packet parsed = event_packet(event);
    const struct compile_place place = compile_log_at(text->compiled, event->outcome.logs[log]);
    const struct policy_log *said = describe_statement(text->policy, place)->log;
    const bool accepted = event->outcome.verdict == VERDICT_ACCEPT;
    json_t *object = begin_line(text, &parsed, "log"), *own = json_object(), *type = json_object();

    put_string(type, "action", accepted ? "allowed" : "blocked");
    put_string(type, "prefix", said->prefix);
    put_string(type, "level", value_level_name(said->level));
    put_headers(type, &parsed);
    put(object, "log", type);
    put_string(own, "verdict", verdict_name(event->outcome.verdict));
    put_rule_place(own, text->policy, place);
    put_chain_place(own, text->policy, place);
    put_number(own, "statement", place.statement);
    put_own(own, event);
    put(object, "twinwall", own);
    return line_of(object);
}

char *events_text_own_line(uint64_t time_ns, enum events_kind kind,
                           const struct events_facts *facts) {
    json_t *object = json_object(), *own = json_object();

    put_timestamp(object, time_ns);
    put_string(object, "event_type", "twinwall");
    put_string(own, "event", kind_name(kind));
    put_string(own, "program", OPTIONS_PROGRAM);
    put_string(own, "version", OPTIONS_VERSION);
    if (facts && facts->text)
        put_string(own, "text", facts->text);
    for (size_t i = 0; facts && i < facts->count; i++)
        put_number(own, facts->figures[i].name, facts->figures[i].value);
    put(object, "twinwall", own);
    return line_of(object);
}
