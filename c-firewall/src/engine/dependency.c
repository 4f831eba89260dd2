// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dependency.h"

#include <netinet/in.h>

#include "engine/fields.h"

/// Protocols that the table and a rule's matches and maps require of a packet.
struct said {
    bool ipv4, ipv6, tcp;
};

/// Returns true if a match holds only for this value of its field.
static bool is_only(const struct policy_match *match, policy_value value) {
    const struct policy_range *ranges = &match->range;
    uint32_t count = 1;

    if (match->op != POLICY_EQ || match->masked || match->right == POLICY_RIGHT_NAMED)
        return false;
    if (match->right == POLICY_RIGHT_LITERAL) {
        ranges = match->elements.ranges;
        count = match->elements.count;
    }
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].low != value || ranges[i].high != value)
            return false;
    return true;
}

static void hear_key(struct said *said, const struct policy_key *key) {
    for (uint32_t i = 0; i < key->count; i++) {
        const struct policy_field_facts *facts = policy_field_facts(key->fields[i]);

        said->ipv4 |= facts->layer3 == POLICY_NEEDS_IPV4;
        said->ipv6 |= facts->layer3 == POLICY_NEEDS_IPV6;
        said->tcp |= facts->protocol == IPPROTO_TCP;
    }
}

static void hear_match(struct said *said, const struct policy_match *match) {
    const enum policy_field field = match->key.fields[0];

    hear_key(said, &match->key);
    if (match->key.count > 1)
        return;
    if (field == POLICY_META_L4PROTO || field == POLICY_IP_PROTOCOL || field == POLICY_IP6_NEXTHDR)
        said->tcp |= is_only(match, IPPROTO_TCP);
    if (field == POLICY_META_NFPROTO) {
        said->ipv4 |= is_only(match, FIELDS_IPV4);
        said->ipv6 |= is_only(match, FIELDS_IPV6);
    }
}

static void hear(struct said *said, const struct policy_statement *statement) {
    if (statement->kind == POLICY_MATCH)
        hear_match(said, statement->match);
    else if (statement->kind == POLICY_VMAP)
        hear_key(said, &statement->match->key);
    else if (statement->kind == POLICY_MARK_SET && statement->mark_set->has_map)
        hear_key(said, &statement->mark_set->map.key);
}

static bool is_extension(const struct policy_statement *statement) {
    return statement->kind == POLICY_MATCH &&
           policy_field_facts(statement->match->key.fields[0])->part == POLICY_PART_EXTENSION;
}

/// Returns the key of a match or map; NULL for other statements.
static const struct policy_key *key_of(const struct policy_statement *statement) {
    if (statement->kind == POLICY_MATCH || statement->kind == POLICY_VMAP)
        return &statement->match->key;
    if (statement->kind == POLICY_MARK_SET && statement->mark_set->has_map)
        return &statement->mark_set->map.key;
    return NULL;
}

static bool reads_names(const struct policy_statement *statement) {
    const struct policy_key *key = key_of(statement);

    for (uint32_t i = 0; key && i < key->count; i++)
        if (policy_field_facts(key->fields[i])->part == POLICY_PART_NAMES)
            return true;
    return false;
}

/// Returns the condition of a reject's type, unless the table or an earlier match or map implies
/// it; then 0.
static uint32_t reject_needs(const struct policy_reject *reject, const struct said *said) {
    switch (reject->kind) {
    case POLICY_REJECT_TCP_RESET:
        return said->tcp ? 0 : DEPENDENCY_NEEDS_TCP;
    case POLICY_REJECT_ICMP:
        return said->ipv4 ? 0 : DEPENDENCY_NEEDS_IPV4;
    case POLICY_REJECT_ICMPV6:
        return said->ipv6 ? 0 : DEPENDENCY_NEEDS_IPV6;
    case POLICY_REJECT_ICMPX:
        break;
    }
    return 0;
}

uint32_t dependency_names_at(const struct policy_rule *rule) {
    for (uint32_t i = 0; i < rule->count; i++)
        if (reads_names(&rule->statements[i]))
            return i;
    return DEPENDENCY_NO_NAMES;
}

uint32_t dependency_needs(enum policy_family family, const struct policy_rule *rule) {
    struct said said = {.ipv4 = family == POLICY_IP, .ipv6 = family == POLICY_IP6};
    uint32_t needs = 0;

    for (uint32_t i = 0; i < rule->count; i++) {
        const struct policy_statement *statement = &rule->statements[i];

        if (is_extension(statement) && !said.ipv6)
            needs |= DEPENDENCY_NEEDS_IPV6;
        if (reads_names(statement))
            needs |= DEPENDENCY_READS_NAMES;
        if (statement->kind == POLICY_REJECT)
            needs |= reject_needs(&statement->reject, &said);
        hear(&said, statement);
    }
    return needs;
}
