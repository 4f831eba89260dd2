// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/advice.h"

#include <stdio.h>

enum {
    ESTABLISHED = 2, // value of `ct state established`
    // Maximum number of rules that a search examines, because there may be very many paths through
    // the chains.
    STEPS_MAX = 1 << 20,
    // Share of unused lines in a file of host names above which a warning is due: one line in
    // LEFT_OUT_SHARE.
    LEFT_OUT_SHARE = 10,
    TEXT_BYTES = 2 * 4096 // maximum size of a warning: two paths and the text
};

/// Search for a rule that reads names (tls, http or dns fields) after a rule that accepts
/// established connections.
struct search {
    const struct policy_table *table;
    // Place of the rule that accepts established connections, once it is found; NULL = none.
    const struct policy_place *accepts;
    // Place of the first rule with a tls, http or dns field after `accepts`; NULL = none.
    const struct policy_place *behind;
    uint32_t steps;
};

static const char *file_of(const struct policy *policy, uint32_t file) {
    return file < policy->file_count ? policy->files[file] : "";
}

static const struct policy_elements *elements_of(const struct policy_table *table,
                                                 const struct policy_match *match) {
    switch (match->right) {
    case POLICY_RIGHT_RANGE:
        return NULL;
    case POLICY_RIGHT_NAMED:
        return &table->sets[match->set].elements;
    case POLICY_RIGHT_LITERAL:
        break;
    }
    return &match->elements;
}

static bool has(const struct policy_range *range, policy_value value) {
    return range->low <= value && value <= range->high;
}

/// Returns true if an element whose first field is ct state contains the state of established
/// connections.
static bool is_established(const struct policy_elements *elements, uint32_t index) {
    return has(&elements->ranges[(size_t)index * elements->fields], ESTABLISHED);
}

/// Returns true if a match holds for all packets of established connections. A match of
/// meta l4proto or meta nfproto counts as if it held for all packets.
static bool holds(const struct policy_table *table, const struct policy_match *match) {
    const struct policy_elements *elements = elements_of(table, match);
    bool found = false;

    if (match->key.count > 1)
        return false;
    if (match->key.fields[0] == POLICY_META_L4PROTO || match->key.fields[0] == POLICY_META_NFPROTO)
        return true;
    if (match->key.fields[0] != POLICY_CT_STATE_FIELD)
        return false;
    if (!elements && match->op == POLICY_BITS_ANY)
        return (match->range.low & ESTABLISHED) != 0;
    if (!elements)
        found = has(&match->range,
                    match->masked ? ESTABLISHED & match->mask : (policy_value)ESTABLISHED);
    for (uint32_t i = 0; elements && i < elements->count; i++)
        found = found || is_established(elements, i);
    return (match->op == POLICY_EQ && found) || (match->op == POLICY_NE && !found);
}

/// Returns true if a verdict map accepts established connections.
static bool map_accepts(const struct policy_table *table, const struct policy_match *map) {
    const struct policy_elements *elements = elements_of(table, map);

    if (!elements || map->key.count != 1 || map->key.fields[0] != POLICY_CT_STATE_FIELD)
        return false;
    for (uint32_t i = 0; elements->targets && i < elements->count; i++)
        if (elements->targets[i].verdict == POLICY_ACCEPT && is_established(elements, i))
            return true;
    return false;
}

/// Returns true if a rule accepts all packets of established connections, perhaps of some protocols
/// only.
static bool accepts_established(const struct policy_table *table, const struct policy_rule *rule) {
    bool reads_state = false;

    for (uint32_t i = 0; i < rule->count; i++) {
        const struct policy_statement *statement = &rule->statements[i];

        switch (statement->kind) {
        case POLICY_MATCH:
            if (!holds(table, statement->match))
                return false;
            reads_state |= statement->match->key.fields[0] == POLICY_CT_STATE_FIELD;
            break;
        case POLICY_COUNTER:
        case POLICY_LOG:
            break;
        case POLICY_MARK_SET:
            if (statement->mark_set->has_map)
                return false; // a map without the packet's key ends the rule
            break;
        case POLICY_VERDICT:
            return reads_state && statement->target->verdict == POLICY_ACCEPT;
        case POLICY_VMAP:
            return map_accepts(table, statement->match);
        default:
            return false;
        }
    }
    return false;
}

/// Returns true if a match or verdict map of a rule reads a field for which `wanted` returns true.
static bool reads(const struct policy_rule *rule, bool (*wanted)(enum policy_field field)) {
    for (uint32_t i = 0; i < rule->count; i++) {
        const struct policy_statement *statement = &rule->statements[i];

        if (statement->kind != POLICY_MATCH && statement->kind != POLICY_VMAP)
            continue;
        for (uint32_t j = 0; j < statement->match->key.count; j++)
            if (wanted(statement->match->key.fields[j]))
                return true;
    }
    return false;
}

static bool is_name(enum policy_field field) {
    return policy_field_facts(field)->part == POLICY_PART_NAMES;
}

static bool is_tls(enum policy_field field) {
    return field >= POLICY_TLS_SNI && field <= POLICY_TLS_ECH;
}

/// Returns true for meta l4proto, ip protocol, and the ports, flags, types and codes of layer 4. A
/// match of such a field counts as a choice of the protocol.
static bool is_told(enum policy_field field) {
    const enum policy_part part = policy_field_facts(field)->part;

    return part == POLICY_PART_TRANSPORT || part == POLICY_PART_PROTOCOL ||
           field == POLICY_IP_PROTOCOL;
}

static void search_chain(struct search *search, const struct policy_chain *chain);

/// Searches the chain that a jump or goto leads to, like search_chain. Does nothing for other
/// verdicts.
/// - always: true if the jump or goto has no condition. Then a rule of its chain that accepts
///   established connections also counts for the calling chain.
// NOLINTNEXTLINE(misc-no-recursion)
static void search_target(struct search *search, const struct policy_target *target, bool always) {
    const struct policy_place *before = search->accepts;

    if (target->verdict != POLICY_JUMP && target->verdict != POLICY_GOTO)
        return;
    search_chain(search, &search->table->chains[target->chain_index]);
    if (!always)
        search->accepts = before;
}

/// Searches the chains that a rule's jump, goto or verdict map leads to.
// NOLINTNEXTLINE(misc-no-recursion)
static void search_rule(struct search *search, const struct policy_rule *rule) {
    const struct policy_statement *last = &rule->statements[rule->count - 1];
    const struct policy_elements *elements;

    if (last->kind == POLICY_VERDICT)
        search_target(search, last->target, rule->count == 1);
    if (last->kind != POLICY_VMAP)
        return;
    elements = elements_of(search->table, last->match);
    for (uint32_t i = 0; elements && elements->targets && i < elements->count; i++)
        search_target(search, &elements->targets[i], false);
}

/// Searches a chain and the chains that its jumps and gotos lead to. Stops at the first rule that
/// reads names (tls, http or dns fields) after a rule that accepts established connections, or
/// after STEPS_MAX rules.
// NOLINTNEXTLINE(misc-no-recursion)
static void search_chain(struct search *search, const struct policy_chain *chain) {
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct policy_rule *rule = &chain->rules[i];

        if (search->behind || search->steps == 0)
            return;
        search->steps--;
        if (search->accepts && reads(rule, is_name)) {
            search->behind = &rule->place;
            return;
        }
        if (!search->accepts && accepts_established(search->table, rule))
            search->accepts = &rule->place;
        search_rule(search, rule);
    }
}

/// Warns about a base chain that accepts established connections before a rule that reads names
/// (tls, http or dns fields).
static void tell_established(const struct policy *policy, const struct policy_table *table,
                             const struct policy_chain *chain, void (*tell)(const char *text)) {
    struct search search = {.table = table, .steps = STEPS_MAX};
    char text[TEXT_BYTES];

    search_chain(&search, chain);
    if (!search.accepts || !search.behind)
        return;
    snprintf(text, sizeof text,
             "%s:%u: reads names after %s:%u, which accepts established connections: these are "
             "accepted before they show a name: put this rule before that one",
             file_of(policy, search.behind->file), search.behind->line,
             file_of(policy, search.accepts->file), search.accepts->line);
    tell(text);
}

/// Warns about a rule that reads TLS fields and has `reject with tcp reset`, but no match of the
/// protocol or of layer 4: QUIC with the same name passes it.
static void tell_reset(const struct policy *policy, const struct policy_rule *rule,
                       void (*tell)(const char *text)) {
    const struct policy_statement *last = &rule->statements[rule->count - 1];
    char text[TEXT_BYTES];

    if (last->kind != POLICY_REJECT || last->reject.kind != POLICY_REJECT_TCP_RESET ||
        !reads(rule, is_tls) || reads(rule, is_told))
        return;
    snprintf(text, sizeof text,
             "%s:%u: answers TCP only and lets QUIC with the same name pass: write `reject`",
             file_of(policy, rule->place.file), rule->place.line);
    tell(text);
}

/// Warns about a file of host names that has no names or many unused lines.
static void tell_file(const struct policy *policy, const struct policy_listed_file *file,
                      void (*tell)(const char *text)) {
    const char *name = file_of(policy, file->file);
    char text[TEXT_BYTES];

    if (file->names == 0)
        snprintf(text, sizeof text, "%s: has no names: is it the right file?", name);
    else if ((uint64_t)file->left_out * LEFT_OUT_SHARE > file->lines)
        snprintf(text, sizeof text,
                 "%s:%u: %u of %u lines have an unknown format and were left out, the first one "
                 "here: see `file` in GRAMMAR.md",
                 name, file->first_left_out, file->left_out, file->lines);
    else
        return;
    tell(text);
}

/// Reports one line about a file of host names: its numbers of lines, of names, of skipped names
/// (those of the machine itself, such as localhost), and of left-out lines (those of an unknown
/// format). Omits each of the last two if it is 0.
static void report_file(const struct policy *policy, const struct policy_listed_file *file,
                        void (*tell)(const char *text)) {
    const char *name = file_of(policy, file->file);
    char local[64] = "", first[TEXT_BYTES] = "", text[TEXT_BYTES * 2];

    if (file->local > 0)
        snprintf(local, sizeof local, ", names of this machine skipped %u", file->local);
    if (file->left_out > 0)
        snprintf(first, sizeof first, ", left out %u, the first at %s:%u", file->left_out, name,
                 file->first_left_out);
    snprintf(text, sizeof text, "%s: lines %u, names %u%s%s", name, file->lines, file->names, local,
             first);
    tell(text);
}

void advice_report(const struct policy *policy, void (*tell)(const char *text)) {
    for (uint32_t i = 0; i < policy->table_count; i++)
        for (uint32_t j = 0; j < policy->tables[i].set_count; j++) {
            const struct policy_listed *listed = &policy->tables[i].sets[j].listed;

            for (uint32_t k = 0; k < listed->file_count; k++)
                report_file(policy, &listed->files[k], tell);
        }
}

void advice_advise(const struct policy *policy, void (*tell)(const char *text)) {
    for (uint32_t i = 0; i < policy->table_count; i++) {
        const struct policy_table *table = &policy->tables[i];

        for (uint32_t j = 0; j < table->chain_count; j++) {
            const struct policy_chain *chain = &table->chains[j];

            if (chain->is_base)
                tell_established(policy, table, chain, tell);
            for (uint32_t k = 0; k < chain->count; k++)
                tell_reset(policy, &chain->rules[k], tell);
        }
        for (uint32_t j = 0; j < table->set_count; j++)
            for (uint32_t k = 0; k < table->sets[j].listed.file_count; k++)
                tell_file(policy, &table->sets[j].listed.files[k], tell);
    }
}
