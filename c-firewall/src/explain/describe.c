// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/describe.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "engine/interface.h"
#include "policy/print.h"
#include "policy/value.h"
#include "worker/reject.h"

/// Prints a text from print, and frees it.
static void put(FILE *out, char *text) {
    fputs(text ? text : "", out);
    free(text);
}

const struct policy_rule *describe_rule(const struct policy *policy, struct compile_place place) {
    return &policy->tables[place.table].chains[place.chain].rules[place.rule];
}

const struct policy_statement *describe_statement(const struct policy *policy,
                                                  struct compile_place place) {
    return &describe_rule(policy, place)->statements[place.statement];
}

void describe_place(FILE *out, const struct policy *policy, struct compile_place place) {
    const struct policy_place *text = &describe_rule(policy, place)->place;

    fprintf(out, "%s:%u", policy->files[text->file], text->line);
}

int describe_place_width(const struct policy *policy, struct compile_place place) {
    const struct policy_place *text = &describe_rule(policy, place)->place;

    return snprintf(NULL, 0, "%s:%u", policy->files[text->file], text->line);
}

void describe_place_padded(FILE *out, const struct policy *policy, struct compile_place place,
                           int width) {
    describe_place(out, policy, place);
    fprintf(out, "%*s", width - describe_place_width(policy, place), "");
}

void describe_chain(FILE *out, const struct policy *policy, struct compile_place place) {
    const struct policy_table *table = &policy->tables[place.table];

    fprintf(out, "%s %s %s", policy_family_name(table->family), table->name,
            table->chains[place.chain].name);
}

void describe_rule_text(FILE *out, const struct policy *policy, struct compile_place place) {
    put(out, print_rule(policy, &policy->tables[place.table], describe_rule(policy, place)));
}

/// Prints an address of the packet, with its port if it has one.
static void put_address(FILE *out, const uint8_t *bytes, bool is_ipv4, bool has_port,
                        uint16_t port) {
    const bool brackets = !is_ipv4 && has_port;
    policy_value value = 0;

    for (int i = 0; i < (is_ipv4 ? 4 : 16); i++)
        value = value << 8 | bytes[i];
    fputs(brackets ? "[" : "", out);
    put(out, print_value(is_ipv4 ? POLICY_IPV4_ADDR : POLICY_IPV6_ADDR, value));
    fputs(brackets ? "]" : "", out);
    if (has_port)
        fprintf(out, ":%u", port);
}

/// Prints a packet's protocol with its TCP flags or ICMP type, and a note if the packet is a
/// fragment.
static void put_protocol(FILE *out, const struct packet *packet) {
    putc(' ', out);
    put(out, print_value(POLICY_INET_PROTO, packet->protocol));
    if (packet->has_tcp_flags && packet->tcp_flags != 0) {
        putc(' ', out);
        put(out, print_value(POLICY_TCP_FLAG, packet->tcp_flags));
    }
    if (packet->has_icmp) {
        putc(' ', out);
        put(out, print_value(packet->version == 4 ? POLICY_ICMP_TYPE : POLICY_ICMPV6_TYPE,
                             packet->icmp_type));
    }
    if (packet->later_fragment)
        fputs(", a later fragment", out);
    else if (packet->fragment)
        fputs(", a first fragment", out);
}

void describe_packet(FILE *out, const struct packet *packet, enum packet_status status) {
    const uint8_t *addresses = packet_addresses(packet);
    const bool is_ipv4 = packet->version == 4;

    if (addresses) {
        put_address(out, addresses, is_ipv4, packet->has_ports, packet->source_port);
        fputs(" > ", out);
        put_address(out, addresses + packet_address_bytes(packet), is_ipv4, packet->has_ports,
                    packet->destination_port);
        put_protocol(out, packet);
        fputs(", ", out);
    }
    fprintf(out, "%u bytes", packet->original);
    if (packet_is_malformed(status))
        fprintf(out, ", malformed (%s)", packet_status_name(status));
    if (packet->captured < packet->original)
        fprintf(out, ", %u captured", packet->captured);
}

const struct policy_key *describe_key_of(const struct policy_statement *statement) {
    if (statement->kind == POLICY_MATCH || statement->kind == POLICY_VMAP)
        return &statement->match->key;
    if (statement->kind == POLICY_MARK_SET && statement->mark_set->has_map)
        return &statement->mark_set->map.key;
    return NULL;
}

/// Prints a name from a packet, in quotes, with `?` for quotes, backslashes and unprintable
/// characters.
static void put_quoted(FILE *out, const uint8_t *name, size_t length) {
    putc('"', out);
    for (size_t i = 0; i < length; i++) {
        const bool is_shown = name[i] >= ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\\';

        putc(is_shown ? name[i] : '?', out);
    }
    putc('"', out);
}

/// Prints the protocols that a client offers, in the syntax of a set, with `?` for quotes,
/// backslashes and unprintable characters.
static void put_protocols(FILE *out, const struct names *names) {
    const uint8_t *at = names->alpn, *end = at + names->alpn_length;
    const char *before = "";

    fputs("{ ", out);
    while (at < end) {
        size_t length = *at++;

        length = length < (size_t)(end - at) ? length : (size_t)(end - at);
        fputs(before, out);
        put_quoted(out, at, length);
        at += length;
        before = ", ";
    }
    fputs(" }", out);
}

/// Prints the value of a packet's field. The index of an interface must have been replaced by its
/// name.
static void put_value(FILE *out, enum policy_type type, policy_value value,
                      const struct names *names) {
    if (type == POLICY_HOSTNAME)
        put_quoted(out, names->host, names->host_length);
    else if (type == POLICY_ALPN)
        put_protocols(out, names);
    else
        put(out, print_value(type, value));
}

static void put_differs(FILE *out, const struct policy *policy, const struct decide_step *step,
                        const struct names *names,
                        const char *(*interface_name)(void *context, uint32_t index),
                        void *context) {
    const struct policy_key *key = describe_key_of(describe_statement(policy, step->place));

    for (uint32_t i = 0; i < step->values_count; i++)
        fprintf(out, "%s%s", i > 0 ? " . " : "", policy_field_facts(key->fields[i])->text);
    fputs(" is ", out);
    for (uint32_t i = 0; i < step->values_count; i++) {
        const enum policy_type type = policy_field_facts(key->fields[i])->type;
        policy_value value = step->values[i];

        if (type == POLICY_IFACE_INDEX)
            value = interface_value(interface_name(context, (uint32_t)value));
        fputs(i > 0 ? " . " : "", out);
        put_value(out, type, value, names);
    }
}

/// Returns the reason why the rule does not apply to a packet's protocol.
static const char *other_kind(const struct policy_rule *rule) {
    const struct policy_statement *last = &rule->statements[rule->count - 1];

    if (last->kind == POLICY_REJECT && last->reject.kind == POLICY_REJECT_TCP_RESET)
        return "the reply is for tcp only";
    if (last->kind == POLICY_REJECT && last->reject.kind == POLICY_REJECT_ICMP)
        return "the reply is for ipv4 only";
    if (last->kind == POLICY_REJECT && last->reject.kind == POLICY_REJECT_ICMPV6)
        return "the reply is for ipv6 only";
    return "exthdr is for ipv6 only";
}

void describe_why(FILE *out, const struct policy *policy, const struct decide_step *step,
                  const struct names *names,
                  const char *(*interface_name)(void *context, uint32_t index), void *context) {
    const struct policy_statement *statement = describe_statement(policy, step->place);

    switch (step->why) {
    case DECIDE_HELD:
        break;
    case DECIDE_DIFFERS:
        if (step->values_count == 0)
            fprintf(out, "no possible %s matches", policy_field_facts(step->missing)->text);
        else
            put_differs(out, policy, step, names, interface_name, context);
        break;
    case DECIDE_MISSING:
        fprintf(out, "%s is missing", policy_field_facts(step->missing)->text);
        break;
    case DECIDE_BEYOND:
        fprintf(out, "%s is beyond the copied bytes", policy_field_facts(step->missing)->text);
        break;
    case DECIDE_UNKNOWN:
        fprintf(out, "%s is not known", policy_field_facts(step->missing)->text);
        break;
    case DECIDE_LIMIT:
        fputs(statement->limit.over ? "limit not exceeded" : "limit exceeded", out);
        break;
    case DECIDE_QUOTA:
        fputs(statement->quota.over ? "quota not used up" : "quota used up", out);
        break;
    case DECIDE_NO_ANSWER:
        fputs(other_kind(describe_rule(policy, step->place)), out);
        break;
    }
}

void describe_reply(FILE *out, const struct policy_reject *reject, uint8_t version) {
    const enum policy_reject_kind kind = version == 4 ? POLICY_REJECT_ICMP : POLICY_REJECT_ICMPV6;
    const char *name;
    uint8_t code;

    if (reject->kind == POLICY_REJECT_TCP_RESET) {
        fputs("tcp reset", out);
        return;
    }
    code = reject_code(reject, version);
    name = value_reject_name(kind, code);
    fputs(version == 4 ? "icmp " : "icmpv6 ", out);
    if (name)
        fputs(name, out);
    else
        fprintf(out, "%u", code);
}
