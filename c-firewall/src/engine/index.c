// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/dependency.h"
#include "engine/hostnames.h"
#include "engine/matches.h"

// Maximum number of rules with which find_beginnings compares a rule.
enum { BEGINNINGS_MAX = 128 };

/// Kind of the statements before a rule's first statement that reads a name. They decide whether
/// the rule reads the names.
enum beginning {
    // The rule reads no names, or an earlier rule has the same matches before its first statement
    // that reads a name.
    BEGINNING_KNOWN,
    // None of the earlier rules with which find_beginnings compares the rule has the same matches
    // before its first statement that reads a name.
    BEGINNING_FIRST,
    // The statements before the first statement that reads a name contain a match of the mark,
    // which rules may change, or a statement that is no match.
    BEGINNING_MARKED,
};

/// Chain whose indexes are being created. Its rules are numbered from 0.
struct plan {
    const struct compiled *compiled;
    const struct policy_table *table;
    const struct policy_chain *source;
    const struct compile_chain *chain;
    uint64_t fields;            // bits of the fields by which rules may be found
    enum beginning *beginnings; // kind of each rule's beginning (find_beginnings)
    bool *taken;                // for each rule, true if it is in an index
    // For each rule, true if it must be in the list of rules that may read names although they are
    // skipped (readers).
    bool *reads;
    bool *tested; // for each rule, true if `ranges` has ranges of the rule
    // For each rule in `ranges`, true if it must be in the list of readers (rules that may read
    // names although they are skipped) once it is in an index by the current field. That is so if
    // the kind of its beginning is BEGINNING_FIRST, and its match in `ranges` is its first
    // statement that reads a name or a later statement.
    bool *late;
    // For each rule, true if candidates_make left it out, because it has too many intervals.
    bool *left_out;
    uint32_t range_count;
    struct lookup_range *ranges; // ranges of the rules' matches of the current field (collect)
};

/// Returns the elements of a match's set. Returns NULL for a match without a set, for a key with
/// several fields, for sets with names from files, and for sets with too many elements.
static const struct policy_elements *few_elements(const struct plan *plan,
                                                  const struct policy_match *match) {
    const struct policy_elements *elements = match->right == POLICY_RIGHT_NAMED
                                                 ? &plan->table->sets[match->set].elements
                                                 : &match->elements;

    if (match->right == POLICY_RIGHT_RANGE || match->key.count != 1 ||
        (match->right == POLICY_RIGHT_NAMED && plan->table->sets[match->set].listed.count > 0))
        return NULL;
    return elements->count <= CANDIDATES_INTERVALS_MAX ? elements : NULL;
}

/// Returns true if an index can contain a match: it holds only in a few ranges of its field's
/// values. Excluded are the mark, because rules change it; indexes of interfaces, because their
/// ranges are names at this point; and ALPN protocols, because they are bits.
static bool is_indexable(const struct plan *plan, const struct compile_op *op,
                         const struct policy_match *match) {
    const enum policy_field field = match->key.fields[0];

    if (op->negated || match->masked || !(plan->fields & FIELDS_BIT(field)) ||
        field == POLICY_META_MARK || field == POLICY_META_IIF || field == POLICY_META_OIF ||
        field == POLICY_TLS_ALPN)
        return false;
    if (op->kind == COMPILE_LEARNED)
        return false;
    if (op->kind == COMPILE_SET)
        return few_elements(plan, match) != NULL;
    return match->op != POLICY_BITS_ANY;
}

static int add_range(struct plan *plan, policy_value low, policy_value high, uint32_t rule) {
    struct lookup_range *ranges =
        compiled_grow(plan->ranges, plan->range_count, sizeof *plan->ranges);

    if (!ranges)
        return -ENOMEM;
    plan->ranges = ranges;
    plan->ranges[plan->range_count++] = (struct lookup_range){low, high, rule};
    return 0;
}

/// Adds the ranges of a match, sorted and without overlaps.
static int add_match(struct plan *plan, const struct compile_op *op,
                     const struct policy_match *match, uint32_t rule) {
    const struct policy_elements *elements = few_elements(plan, match);
    const bool is_host = policy_field_facts(match->key.fields[0])->type == POLICY_HOSTNAME;
    const uint32_t first = plan->range_count;
    int result = 0;

    if (op->kind == COMPILE_NARROW)
        return add_range(plan, op->low, (policy_value)op->low + op->span, rule);
    if (op->kind == COMPILE_WIDE) {
        const struct compile_wide *wide = &plan->compiled->wides[op->index];

        return add_range(plan, wide->low, wide->low + wide->span, rule);
    }
    for (uint32_t i = 0; result == 0 && i < elements->count; i++) {
        struct policy_range range = elements->ranges[i];

        if (is_host)
            range = hostnames_interval(&plan->compiled->hosts, (uint32_t)range.low);
        result = add_range(plan, range.low, range.high, rule);
    }
    if (result == 0 && plan->range_count > first)
        plan->range_count = first + lookup_part(&plan->ranges[first], plan->range_count - first);
    return result;
}

/// Returns the number of statements at the start of a rule that may be matches by which the rule
/// can be found.
static uint32_t leading_count(const struct plan *plan, uint32_t rule) {
    const struct compile_rule *compiled = &plan->compiled->rules[plan->chain->first_rule + rule];

    return plan->beginnings[rule] == BEGINNING_MARKED ? compiled->names_at : compiled->count;
}

/// Returns a rule's first match of a field by which it can be found, before the rule's first
/// statement that is no match; NULL if there is none.
/// - statement: out: index of the match in the rule, if there is one.
static const struct compile_op *leading(const struct plan *plan, uint32_t rule,
                                        enum policy_field field, uint32_t *statement) {
    const struct compile_rule *compiled = &plan->compiled->rules[plan->chain->first_rule + rule];
    const uint32_t count = leading_count(plan, rule);

    for (uint32_t i = 0; i < count; i++) {
        const struct compile_op *op = &plan->compiled->ops[compiled->first + i];
        const struct policy_match *match = plan->source->rules[rule].statements[i].match;

        if (op->kind > COMPILE_LEARNED)
            return NULL;
        if (match->key.fields[0] == field && is_indexable(plan, op, match)) {
            *statement = i;
            return op;
        }
    }
    return NULL;
}

/// Returns the bits of all fields by which rules that are in no index could be found.
static uint64_t leading_fields(const struct plan *plan) {
    uint64_t fields = 0;

    for (uint32_t rule = 0; rule < plan->chain->rule_count; rule++) {
        const struct compile_rule *compiled =
            &plan->compiled->rules[plan->chain->first_rule + rule];
        const uint32_t count = leading_count(plan, rule);

        for (uint32_t i = 0; !plan->taken[rule] && i < count; i++) {
            const struct compile_op *op = &plan->compiled->ops[compiled->first + i];
            const struct policy_match *match = plan->source->rules[rule].statements[i].match;

            if (op->kind > COMPILE_LEARNED)
                break;
            if (is_indexable(plan, op, match))
                fields |= FIELDS_BIT(match->key.fields[0]);
        }
    }
    return fields;
}

/// Collects the ranges of all rules that test the field and are in no index. Returns the number of
/// these rules, or -ENOMEM.
static int64_t collect(struct plan *plan, enum policy_field field) {
    int64_t rules = 0;

    plan->range_count = 0;
    for (uint32_t rule = 0; rule < plan->chain->rule_count; rule++) {
        const struct compile_op *op = NULL;
        uint32_t statement = 0;

        if (!plan->taken[rule])
            op = leading(plan, rule, field, &statement);
        plan->tested[rule] = op != NULL;
        plan->late[rule] = false;
        plan->left_out[rule] = false;
        if (!op)
            continue;
        plan->late[rule] =
            plan->beginnings[rule] == BEGINNING_FIRST &&
            statement >= plan->compiled->rules[plan->chain->first_rule + rule].names_at;
        if (add_match(plan, op, plan->source->rules[rule].statements[statement].match, rule) < 0)
            return -ENOMEM;
        rules++;
    }
    return rules;
}

/// Creates an index by a field. Returns the expected number of rules that need not be evaluated for
/// a packet, or -ENOMEM. Returns 0 with candidates zeroed if there are fewer than
/// COMPILE_INDEX_GAIN_MIN such rules.
/// - candidates: in: zeroed; out: the index.
static int64_t try_field(struct plan *plan, enum policy_field field,
                         struct candidates *candidates) {
    const uint32_t bits = fields_wide_slot(field) < FIELDS_WIDE_COUNT ? 128 : 32;
    int64_t gain = collect(plan, field);

    if (gain < COMPILE_INDEX_GAIN_MIN)
        return gain < 0 ? gain : 0;
    if (candidates_make(candidates, bits, plan->ranges, plan->range_count, plan->chain->rule_count,
                        plan->left_out) < 0)
        return -ENOMEM;
    for (uint32_t rule = 0; rule < plan->chain->rule_count; rule++)
        gain -= plan->left_out[rule] || plan->late[rule];
    gain -= candidates_cost(candidates);
    if (gain >= COMPILE_INDEX_GAIN_MIN)
        return gain;
    candidates_free(candidates);
    return 0;
}

/// Adds the index of a field to the compiled policy, and marks the rules in it as taken. Returns 0
/// or -ENOMEM.
/// - field: field of the last call of try_field.
/// - candidates: lookup from values of the field to rules, as try_field has made it. The index
///   takes it over; on failure it is freed.
static int take(struct compiled *compiled, struct plan *plan, enum policy_field field,
                struct candidates *candidates) {
    struct compile_index *indexes =
        compiled_grow(compiled->indexes, compiled->index_count, sizeof *indexes);
    const uint32_t list_count = candidates->list_count;

    if (!indexes) {
        candidates_free(candidates);
        return -ENOMEM;
    }
    compiled->indexes = indexes;
    for (uint32_t i = 0; i < candidates->starts[list_count]; i++)
        candidates->ids[i] += plan->chain->first_rule;
    indexes[compiled->index_count++] = (struct compile_index){
        .field = field,
        .slot = fields_wide_slot(field),
        .candidates = *candidates,
    };
    for (uint32_t rule = 0; rule < plan->chain->rule_count; rule++) {
        const bool takes = plan->tested[rule] && !plan->left_out[rule];

        plan->taken[rule] |= takes;
        plan->reads[rule] |= takes && plan->late[rule];
    }
    return 0;
}

/// Creates the index that saves the evaluation of the most rules; of equally good indexes, that of
/// the first field. Returns 1 if it has created an index, 0 if no index is useful, or -ENOMEM.
static int add_index(struct compiled *compiled, struct plan *plan) {
    const uint64_t fields = leading_fields(plan);
    enum policy_field best = POLICY_FIELD_COUNT, last = POLICY_FIELD_COUNT;
    struct candidates candidates = {0};
    int64_t most = 0, gain;

    for (int field = 0; field < POLICY_FIELD_COUNT; field++) {
        if (!(fields & FIELDS_BIT(field)))
            continue;
        last = (enum policy_field)field;
        candidates_free(&candidates);
        gain = try_field(plan, last, &candidates);
        if (gain < 0)
            return -ENOMEM;
        if (gain > most) {
            most = gain;
            best = last;
        }
    }
    if (best != last) {
        candidates_free(&candidates);
        if (best != POLICY_FIELD_COUNT && try_field(plan, best, &candidates) < 0)
            return -ENOMEM;
    }
    if (best == POLICY_FIELD_COUNT)
        return 0;
    return take(compiled, plan, best, &candidates) < 0 ? -ENOMEM : 1;
}

/// Returns true if two rules have the same conditions, and the same matches before their first
/// statement that reads a name. Then both rules read a packet's names, or neither does. Returns
/// false if a statement before that one is no match or reads the mark, because rules between the
/// two may change the mark.
/// - chain: number of the chain `source`.
static bool begin_alike(const struct compiled *compiled, const struct policy_chain *source,
                        uint32_t chain, uint32_t a, uint32_t b) {
    const struct compile_rule *rules = &compiled->rules[compiled->chains[chain].first_rule];

    if (rules[a].needs != rules[b].needs || rules[a].names_at != rules[b].names_at)
        return false;
    for (uint32_t i = 0; i < rules[a].names_at; i++) {
        const struct policy_statement *left = &source->rules[a].statements[i];
        const struct policy_statement *right = &source->rules[b].statements[i];
        const uint64_t read = matches_looks_at(compiled, &compiled->ops[rules[a].first + i]);

        if (left->kind != POLICY_MATCH || right->kind != POLICY_MATCH ||
            (read & FIELDS_BIT(POLICY_META_MARK)) ||
            !policy_same_match(compiled->hosts.hostnames, left->match, right->match))
            return false;
    }
    return true;
}

/// Stores the kind of beginning (statements before the first statement that reads a name) of each
/// rule of a chain.
/// - beginnings: in: zeroed; out: the kinds, by the number of the rule.
static void find_beginnings(const struct compiled *compiled, const struct policy_chain *source,
                            uint32_t chain, enum beginning *beginnings) {
    const uint32_t first_rule = compiled->chains[chain].first_rule;
    uint32_t known[BEGINNINGS_MAX], count = 0;

    for (uint32_t rule = 0; rule < source->count; rule++) {
        uint32_t i = count;

        if (compiled->rules[first_rule + rule].names_at == DEPENDENCY_NO_NAMES)
            continue;
        if (!begin_alike(compiled, source, chain, rule, rule)) {
            beginnings[rule] = BEGINNING_MARKED;
            continue;
        }
        while (i > 0 && !begin_alike(compiled, source, chain, known[i - 1], rule))
            i--;
        if (i > 0)
            continue;
        beginnings[rule] = BEGINNING_FIRST;
        if (count < BEGINNINGS_MAX)
            known[count++] = rule;
    }
}

/// Creates the list of rules that may read names although they are skipped. Returns 0 or -ENOMEM.
static int add_readers(struct compiled *compiled, const struct compile_chain *chain,
                       const bool *reads, struct compile_finder *finder) {
    finder->first_reader = compiled->reader_count;
    for (uint32_t rule = 0; rule < chain->rule_count; rule++) {
        uint32_t *readers;

        if (!reads[rule])
            continue;
        readers = compiled_grow(compiled->readers, compiled->reader_count, sizeof *readers);
        if (!readers)
            return -ENOMEM;
        compiled->readers = readers;
        readers[compiled->reader_count++] = chain->first_rule + rule;
    }
    finder->reader_count = compiled->reader_count - finder->first_reader;
    return 0;
}

/// Creates the list of rules that are in no index.
/// - taken: NULL = no rule is in an index.
static int add_always(struct compiled *compiled, const struct compile_chain *chain,
                      const bool *taken, struct compile_finder *finder) {
    finder->first_always = compiled->always_count;
    for (uint32_t rule = 0; rule < chain->rule_count; rule++) {
        uint32_t *always;

        if (taken && taken[rule])
            continue;
        always = compiled_grow(compiled->always, compiled->always_count, sizeof *always);
        if (!always)
            return -ENOMEM;
        compiled->always = always;
        always[compiled->always_count++] = chain->first_rule + rule;
    }
    finder->always_count = compiled->always_count - finder->first_always;
    return 0;
}

/// Creates a finder (indexes, and a list of the rules that are in no index) whose indexes use only
/// some fields.
/// - fields: bits of these fields.
static int make_finder(struct compiled *compiled, struct plan *plan, uint64_t fields,
                       struct compile_finder *finder) {
    int result = 1;

    plan->fields = fields;
    memset(plan->taken, 0, plan->chain->rule_count * sizeof *plan->taken);
    memset(plan->reads, 0, plan->chain->rule_count * sizeof *plan->reads);
    finder->first_index = compiled->index_count;
    for (int i = 0; result == 1 && i < COMPILE_INDEXES_MAX; i++)
        result = add_index(compiled, plan);
    finder->index_count = compiled->index_count - finder->first_index;
    if (result >= 0)
        result = add_always(compiled, plan->chain, plan->taken, finder);
    return result < 0 ? result : add_readers(compiled, plan->chain, plan->reads, finder);
}

/// Returns the bits of the fields that a finder's indexes use.
static uint64_t found_by(const struct compiled *compiled, const struct compile_finder *finder) {
    uint64_t fields = 0;

    for (uint32_t i = 0; i < finder->index_count; i++)
        fields |= FIELDS_BIT(compiled->indexes[finder->first_index + i].field);
    return fields;
}

int index_chain(struct compiled *compiled, const struct policy_table *table,
                const struct policy_chain *chain, uint32_t number) {
    struct compile_chain *out = &compiled->chains[number];
    struct compile_finder *whole = &out->finders[COMPILE_WHOLE];
    struct compile_finder *unnamed = &out->finders[COMPILE_UNNAMED];
    struct compile_finder *cut = &out->finders[COMPILE_BEYOND_COPY];
    struct compile_finder *none = &out->finders[COMPILE_NONE];
    const uint64_t near = ~(fields_behind_ip() | POLICY_FIELDS_OF_NAMES);
    struct plan plan = {
        .compiled = compiled,
        .table = table,
        .source = chain,
        .chain = out,
        .beginnings = calloc(chain->count + 1ULL, sizeof *plan.beginnings),
        .taken = calloc(chain->count + 1ULL, sizeof *plan.taken),
        .reads = calloc(chain->count + 1ULL, sizeof *plan.reads),
        .tested = calloc(chain->count + 1ULL, sizeof *plan.tested),
        .late = calloc(chain->count + 1ULL, sizeof *plan.late),
        .left_out = calloc(chain->count + 1ULL, sizeof *plan.left_out),
    };
    int result =
        plan.beginnings && plan.taken && plan.reads && plan.tested && plan.late && plan.left_out
            ? 0
            : -ENOMEM;

    if (result == 0) {
        find_beginnings(compiled, chain, number, plan.beginnings);
        result = make_finder(compiled, &plan, UINT64_MAX, whole);
    }
    *unnamed = *whole;
    if (result == 0 && (found_by(compiled, whole) & POLICY_FIELDS_OF_NAMES))
        result = make_finder(compiled, &plan, ~POLICY_FIELDS_OF_NAMES, unnamed);
    *cut = *unnamed;
    if (result == 0 && (found_by(compiled, unnamed) & ~near))
        result = make_finder(compiled, &plan, near, cut);
    *none = *cut;
    if (result == 0 && cut->index_count > 0)
        result = make_finder(compiled, &plan, 0, none);
    free(plan.beginnings);
    free(plan.taken);
    free(plan.reads);
    free(plan.tested);
    free(plan.late);
    free(plan.left_out);
    free(plan.ranges);
    return result;
}

int index_none(struct compiled *compiled, uint32_t number) {
    struct compile_chain *chain = &compiled->chains[number];
    struct compile_finder *whole = &chain->finders[COMPILE_WHOLE];
    const int result = add_always(compiled, chain, NULL, whole);

    chain->finders[COMPILE_UNNAMED] = chain->finders[COMPILE_BEYOND_COPY] =
        chain->finders[COMPILE_NONE] = *whole;
    return result;
}
