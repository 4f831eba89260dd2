// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/policy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const hook_names[] = {
    [POLICY_PREROUTING] = "prerouting",   [POLICY_INPUT] = "input",
    [POLICY_FORWARD] = "forward",         [POLICY_OUTPUT] = "output",
    [POLICY_POSTROUTING] = "postrouting",
};
static_assert(sizeof hook_names / sizeof *hook_names == POLICY_HOOK_COUNT, "all named");

static const char *const family_names[] = {
    [POLICY_IP] = "ip", [POLICY_IP6] = "ip6", [POLICY_INET] = "inet"};
static_assert(sizeof family_names / sizeof *family_names == POLICY_FAMILY_COUNT, "all named");

const char *policy_hook_name(enum policy_hook hook) { return hook_names[hook]; }

const char *policy_family_name(enum policy_family family) { return family_names[family]; }

void policy_key_types(const struct policy_key *key, enum policy_type types[POLICY_KEY_FIELDS_MAX]) {
    for (uint32_t i = 0; i < key->count; i++)
        types[i] = policy_field_facts(key->fields[i])->type;
}

bool policy_set_learns(const struct policy_set *set) { return set->learned.count > 0; }

/// Host names of the two policies that are compared.
struct both {
    const struct hostnames *a, *b;
};

static bool equal_text(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool equal_key(const struct policy_key *a, const struct policy_key *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->fields[i] != b->fields[i])
            return false;
    return true;
}

/// Returns true if two host names have the same text, and both or neither are wildcards.
static bool equal_name(const struct both *both, uint32_t a, uint32_t b) {
    size_t a_length, b_length;
    bool a_wildcard, b_wildcard;
    const uint8_t *a_name = hostname_get(both->a, a, &a_length, &a_wildcard);
    const uint8_t *b_name = hostname_get(both->b, b, &b_length, &b_wildcard);

    return a_length == b_length && a_wildcard == b_wildcard &&
           memcmp(a_name, b_name, a_length) == 0;
}

/// Returns true if two ranges of a type are equal. Host names are compared by their text, because a
/// name can have different numbers in the two policies.
static bool equal_range(const struct both *both, enum policy_type type,
                        const struct policy_range *a, const struct policy_range *b) {
    if (type == POLICY_HOSTNAME)
        return equal_name(both, (uint32_t)a->low, (uint32_t)b->low);
    return a->low == b->low && a->high == b->high;
}

static bool equal_target(const struct policy_target *a, const struct policy_target *b) {
    return a->verdict == b->verdict && equal_text(a->chain, b->chain);
}

static bool equal_elements(const struct both *both, const enum policy_type *types,
                           const struct policy_elements *a, const struct policy_elements *b) {
    if (a->fields != b->fields || a->count != b->count || !a->targets != !b->targets ||
        !a->marks != !b->marks)
        return false;
    for (size_t i = 0; i < (size_t)a->count * a->fields; i++)
        if (!equal_range(both, types[i % a->fields], &a->ranges[i], &b->ranges[i]))
            return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->targets && !equal_target(&a->targets[i], &b->targets[i]))
            return false;
        if (a->marks && a->marks[i] != b->marks[i])
            return false;
    }
    return true;
}

static bool equal_types(const struct policy_set *a, const struct policy_set *b) {
    if (a->is_typeof != b->is_typeof || (a->is_typeof && !equal_key(&a->key, &b->key)))
        return false;
    for (uint32_t i = 0; i < a->elements.fields; i++)
        if (a->types[i] != b->types[i])
            return false;
    return true;
}

static bool equal_listed(const struct both *both, const struct policy_listed *a,
                         const struct policy_listed *b) {
    if (a->file_count != b->file_count || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->file_count; i++)
        if (!equal_text(a->files[i].path, b->files[i].path) ||
            a->files[i].with_parents != b->files[i].with_parents)
            return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!equal_name(both, a->ids[i], b->ids[i]))
            return false;
    return true;
}

static bool equal_set(const struct both *both, const struct policy_set *a,
                      const struct policy_set *b) {
    static const enum policy_type hostname = POLICY_HOSTNAME;

    return equal_text(a->name, b->name) && equal_text(a->comment, b->comment) &&
           a->maps_to == b->maps_to && a->interval == b->interval && a->constant == b->constant &&
           a->auto_merge == b->auto_merge && equal_types(a, b) &&
           equal_elements(both, a->types, &a->elements, &b->elements) &&
           equal_listed(both, &a->listed, &b->listed) &&
           equal_elements(both, &hostname, &a->learned, &b->learned);
}

static bool equal_match(const struct both *both, const struct policy_match *a,
                        const struct policy_match *b) {
    enum policy_type types[POLICY_KEY_FIELDS_MAX] = {0};

    if (!equal_key(&a->key, &b->key) || a->masked != b->masked || a->op != b->op ||
        a->right != b->right || (a->masked && a->mask != b->mask))
        return false;
    policy_key_types(&a->key, types);
    switch (a->right) {
    case POLICY_RIGHT_RANGE:
        return equal_range(both, *types, &a->range, &b->range);
    case POLICY_RIGHT_NAMED:
        return equal_text(a->set_name, b->set_name);
    default:
        return equal_elements(both, types, &a->elements, &b->elements);
    }
}

static bool equal_limit(const struct policy_limit *a, const struct policy_limit *b) {
    return a->over == b->over && a->of_bytes == b->of_bytes && a->rate == b->rate &&
           a->unit_s == b->unit_s && a->burst == b->burst;
}

static bool equal_mark_set(const struct both *both, const struct policy_mark_set *a,
                           const struct policy_mark_set *b) {
    if (a->has_map != b->has_map)
        return false;
    return a->has_map ? equal_match(both, &a->map, &b->map)
                      : a->keep == b->keep && a->toggle == b->toggle;
}

static bool equal_statement(const struct both *both, const struct policy_statement *a,
                            const struct policy_statement *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case POLICY_MATCH:
    case POLICY_VMAP:
        return equal_match(both, a->match, b->match);
    case POLICY_COUNTER:
        return a->counter.packets == b->counter.packets && a->counter.bytes == b->counter.bytes;
    case POLICY_LIMIT:
        return equal_limit(&a->limit, &b->limit);
    case POLICY_QUOTA:
        return a->quota.over == b->quota.over && a->quota.bytes == b->quota.bytes &&
               a->quota.used == b->quota.used;
    case POLICY_LOG:
        return equal_text(a->log->prefix, b->log->prefix) && a->log->level == b->log->level;
    case POLICY_MARK_SET:
        return equal_mark_set(both, a->mark_set, b->mark_set);
    case POLICY_VERDICT:
        return equal_target(a->target, b->target);
    default:
        return a->reject.kind == b->reject.kind && a->reject.code == b->reject.code;
    }
}

static bool equal_rule(const struct both *both, const struct policy_rule *a,
                       const struct policy_rule *b) {
    if (a->count != b->count || !a->comment != !b->comment ||
        (a->comment && !equal_text(a->comment, b->comment)))
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!equal_statement(both, &a->statements[i], &b->statements[i]))
            return false;
    return true;
}

static bool equal_base(const struct policy_chain *a, const struct policy_chain *b) {
    if (!a->is_base || !b->is_base)
        return a->is_base == b->is_base;
    return a->hook == b->hook && a->priority == b->priority && a->policy == b->policy &&
           a->declared == b->declared;
}

static bool equal_chain(const struct both *both, const struct policy_chain *a,
                        const struct policy_chain *b) {
    if (!equal_text(a->name, b->name) || !equal_text(a->comment, b->comment) || !equal_base(a, b) ||
        a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!equal_rule(both, &a->rules[i], &b->rules[i]))
            return false;
    return true;
}

static bool equal_table(const struct both *both, const struct policy_table *a,
                        const struct policy_table *b) {
    if (a->family != b->family || !equal_text(a->name, b->name) ||
        !equal_text(a->comment, b->comment) || a->set_count != b->set_count ||
        a->chain_count != b->chain_count)
        return false;
    for (uint32_t i = 0; i < a->set_count; i++)
        if (!equal_set(both, &a->sets[i], &b->sets[i]))
            return false;
    for (uint32_t i = 0; i < a->chain_count; i++)
        if (!equal_chain(both, &a->chains[i], &b->chains[i]))
            return false;
    return true;
}

bool policy_same_match(const struct hostnames *hostnames, const struct policy_match *a,
                       const struct policy_match *b) {
    const struct both both = {hostnames, hostnames};

    return equal_match(&both, a, b);
}

bool policy_equal(const struct policy *a, const struct policy *b) {
    const struct both both = {a->hostnames, b->hostnames};

    if (a->flush != b->flush || a->table_count != b->table_count)
        return false;
    for (uint32_t i = 0; i < a->table_count; i++)
        if (!equal_table(&both, &a->tables[i], &b->tables[i]))
            return false;
    return true;
}

void policy_free_elements(struct policy_elements *elements) {
    free(elements->ranges);
    free(elements->targets);
    free(elements->marks);
    free(elements->places);
}

void policy_free_listed(struct policy_listed *listed) {
    for (uint32_t i = 0; i < listed->file_count; i++)
        free(listed->files[i].path);
    free(listed->files);
    free(listed->ids);
    *listed = (struct policy_listed){0};
}

void policy_free_match(struct policy_match *match) {
    if (match)
        policy_free_elements(&match->elements);
    free(match);
}

void policy_free_statement(struct policy_statement *statement) {
    switch (statement->kind) {
    case POLICY_MATCH:
    case POLICY_VMAP:
        policy_free_match(statement->match);
        break;
    case POLICY_LOG:
        free(statement->log);
        break;
    case POLICY_MARK_SET:
        if (statement->mark_set)
            policy_free_elements(&statement->mark_set->map.elements);
        free(statement->mark_set);
        break;
    case POLICY_VERDICT:
        free(statement->target);
        break;
    default:
        break;
    }
}

void policy_free_rule(struct policy_rule *rule) {
    for (uint32_t i = 0; i < rule->count; i++)
        policy_free_statement(&rule->statements[i]);
    free(rule->statements);
    free(rule->comment);
}

static void free_table(struct policy_table *table) {
    for (uint32_t i = 0; i < table->set_count; i++) {
        policy_free_elements(&table->sets[i].elements);
        policy_free_listed(&table->sets[i].listed);
        policy_free_elements(&table->sets[i].learned);
    }
    for (uint32_t i = 0; i < table->chain_count; i++) {
        for (uint32_t j = 0; j < table->chains[i].count; j++)
            policy_free_rule(&table->chains[i].rules[j]);
        free(table->chains[i].rules);
    }
    free(table->sets);
    free(table->chains);
}

void policy_free(struct policy *policy) {
    for (uint32_t i = 0; i < policy->table_count; i++)
        free_table(&policy->tables[i]);
    for (uint32_t i = 0; i < policy->file_count; i++)
        free(policy->files[i]);
    free(policy->tables);
    free(policy->files);
    hostname_free(policy->hostnames);
    *policy = (struct policy){0};
}
