// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/compile.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/dependency.h"
#include "engine/fields.h"
#include "engine/hostnames.h"
#include "engine/index.h"
#include "engine/learning.h"
#include "policy/value.h"

enum {
    NANOSECONDS = 1000000000, // number of nanoseconds in a second
    IFNAME_BYTES = 16,        // size of an interface's name with its NUL, as IFNAMSIZ
};

/// State of a compilation.
struct build {
    const struct policy *policy;
    const struct compile_settings *settings;
    struct failure *failure;
    struct compiled *out;
    const struct policy_table *table;
    uint32_t first_chain; // number of the table's first chain
    uint32_t first_set;   // number of the table's first named set
};

/// Appends an item to an array, and increments count. Evaluates to 0 or -ENOMEM.
#define ADD(array, count, item)                                                                    \
    ({                                                                                             \
        typeof(array) grown = compiled_grow((array), (count), sizeof *(array));                    \
        if (grown) {                                                                               \
            (array) = grown;                                                                       \
            grown[(count)++] = (item);                                                             \
        }                                                                                          \
        grown ? 0 : -ENOMEM;                                                                       \
    })

/// Fills in a failure with its cause and its place in the policy's text. Returns -EINVAL.
static int refuse(const struct build *build, const struct policy_place *place, const char *token,
                  const char *cause) {
    failure_set(build->failure, LOG_EXIT_USAGE, "%s:%u:%u: \"%s\": %s",
                build->policy->files[place->file], place->line, place->column, token, cause);
    return -EINVAL;
}

/// Replaces an interface's name by its index. If it is missing, fails or stores an empty range.
static int resolve_interface(const struct build *build, const struct policy_place *place,
                             struct policy_range *range) {
    char name[IFNAME_BYTES + 1] = {0};
    uint32_t index = 0;

    for (int i = 0; i < IFNAME_BYTES; i++)
        name[i] = (char)(range->low >> (8 * (IFNAME_BYTES - 1 - i)));
    if (build->settings->interface_index)
        index = build->settings->interface_index(name, build->settings->context);
    if (index == 0 && build->settings->interfaces_must_exist)
        return refuse(build, place, name,
                      "there is no network interface of this name: create it first, or match its "
                      "name with iifname or oifname");
    *range = index > 0 ? (struct policy_range){index, index} : (struct policy_range){1, 0};
    return 0;
}

/// Replaces a name in a range (interface: its index; host: its numbers). Returns 0 or -EINVAL.
static int resolve_range(const struct build *build, const struct policy_place *place,
                         enum policy_type type, struct policy_range *range) {
    if (type == POLICY_IFACE_INDEX)
        return resolve_interface(build, place, range);
    if (type == POLICY_HOSTNAME)
        *range = hostnames_interval(&build->out->hosts, (uint32_t)range->low);
    return 0;
}

/// Allocates the ranges of elements with all names replaced (resolve_range); the caller frees them.
/// An element with a missing interface has an empty first range: set_make leaves it out.
static int resolve_elements(const struct build *build, const struct policy_elements *elements,
                            const enum policy_type *types, struct policy_range **resolved) {
    const size_t count = (size_t)elements->count * elements->fields;
    struct policy_range *ranges = malloc((count + 1) * sizeof *ranges);
    int result = ranges ? 0 : -ENOMEM;

    for (size_t i = 0; result == 0 && i < count; i++) {
        const uint32_t field = (uint32_t)(i % elements->fields);

        ranges[i] = elements->ranges[i];
        result =
            resolve_range(build, &elements->places[i / elements->fields], types[field], &ranges[i]);
        if (result == 0 && ranges[i].low > ranges[i].high)
            ranges[i - field] = ranges[i];
    }
    if (result < 0) {
        free(ranges);
        return result;
    }
    *resolved = ranges;
    return 0;
}

/// Adds a set with count more elements: host names from files (listed). Returns 0 or -errno.
static int add_set(struct build *build, const struct policy_elements *elements,
                   const enum policy_type *types, const uint32_t *listed, uint32_t count) {
    struct policy_range *ranges, *all;
    struct set set;
    int result = resolve_elements(build, elements, types, &ranges);

    if (result < 0)
        return result;
    all = realloc(ranges, ((size_t)elements->count * elements->fields + count + 1) * sizeof *all);
    ranges = all ? all : ranges;
    for (uint32_t i = 0; all && i < count; i++)
        all[elements->count + i] = hostnames_interval(&build->out->hosts, listed[i]);
    result = all ? set_make(&set, types, elements, all, elements->count + count, build->first_chain)
                 : -ENOMEM;
    free(ranges);
    if (result < 0)
        return result;
    result = ADD(build->out->sets, build->out->set_count, set);
    if (result < 0)
        set_free(&set);
    return result;
}

static int add_named_set(struct build *build, const struct policy_set *set) {
    const int result =
        add_set(build, &set->elements, set->types, set->listed.ids, set->listed.count);

    return result < 0 ? result : learning_add(build->out, build->policy, build->table, set);
}

/// Adds a wide field with the range that it is compared with. Returns 0 or -ENOMEM.
static int add_wide(struct build *build, enum policy_field field, policy_value mask,
                    const struct policy_range *range) {
    const struct compile_wide wide = {
        .field = field,
        .slot = fields_wide_slot(field),
        .mask = mask,
        .low = range->low,
        .span = range->high - range->low,
    };

    return ADD(build->out->wides, build->out->wide_count, wide);
}

/// Compiles the key of a match or map for the lookup in its set. Only a key of one field is masked.
static int run_set(struct build *build, const struct policy_match *match, struct compile_op *op) {
    static const struct policy_range none = {0, 0};
    const enum policy_field field = match->key.fields[0];
    const policy_value mask = match->masked ? match->mask : ~(policy_value)0;

    op->field = (uint8_t)field;
    op->mask = (uint32_t)mask;
    if (match->key.count > 1) {
        op->code = COMPILE_SHAPE_KEY;
        op->low = build->out->key_count;
        return ADD(build->out->keys, build->out->key_count, match->key);
    }
    if (fields_wide_slot(field) == FIELDS_WIDE_COUNT) {
        op->code = COMPILE_SHAPE_NARROW;
        return 0;
    }
    op->code = COMPILE_SHAPE_WIDE;
    op->low = build->out->wide_count;
    return add_wide(build, field, mask, &none);
}

/// Stores the set and the key of a match or map in op; adds the set, unless it is a named set.
static int compile_set(struct build *build, const struct policy_match *match,
                       struct compile_op *op) {
    enum policy_type types[POLICY_KEY_FIELDS_MAX] = {0};
    int result = run_set(build, match, op);

    if (result < 0)
        return result;
    if (match->right == POLICY_RIGHT_NAMED) {
        op->index = build->first_set + match->set;
        learning_find(build->out, op);
        return 0;
    }
    op->index = build->out->set_count;
    policy_key_types(&match->key, types);
    return add_set(build, &match->elements, types, NULL, 0);
}

/// Returns the values for which a comparison holds (`!=` as `==`); an empty range for none.
static struct policy_range fold(const struct policy_match *match, policy_value highest) {
    const policy_value value = match->range.low;

    switch (match->op) {
    case POLICY_LT:
        return value > 0 ? (struct policy_range){0, value - 1} : (struct policy_range){1, 0};
    case POLICY_LE:
        return (struct policy_range){0, value};
    case POLICY_GT:
        return value < highest ? (struct policy_range){value + 1, highest}
                               : (struct policy_range){1, 0};
    case POLICY_GE:
        return (struct policy_range){value, highest};
    case POLICY_BITS_ANY:
        return (struct policy_range){1, highest};
    case POLICY_EQ:
    case POLICY_NE:
        break;
    }
    return match->range;
}

/// Compiles a match whose comparison never holds; negated, it holds if the field is present.
static int compile_never(struct build *build, const struct policy_match *match,
                         struct compile_op *op) {
    static const struct set empty = {.fields = 1};

    op->kind = COMPILE_SET;
    op->index = build->out->set_count;
    if (run_set(build, match, op) < 0)
        return -ENOMEM;
    return ADD(build->out->sets, build->out->set_count, empty);
}

static int compile_range(struct build *build, const struct policy_match *match,
                         const struct policy_place *place, struct compile_op *op) {
    const enum policy_field field = match->key.fields[0];
    const bool wide = fields_wide_slot(field) < FIELDS_WIDE_COUNT;
    const bool bits = match->op == POLICY_BITS_ANY;
    const policy_value highest = wide ? ~(policy_value)0 : UINT32_MAX;
    const policy_value mask = bits ? match->range.low : match->masked ? match->mask : highest;
    struct policy_range range = fold(match, highest);
    int result = resolve_range(build, place, policy_field_facts(field)->type, &range);

    if (result < 0)
        return result;
    if (range.low > range.high)
        return compile_never(build, match, op);
    if (wide) {
        op->kind = COMPILE_WIDE;
        op->index = build->out->wide_count;
        return add_wide(build, field, mask, &range);
    }
    op->kind = COMPILE_NARROW;
    op->field = (uint8_t)field;
    op->mask = (uint32_t)mask;
    op->low = (uint32_t)range.low;
    op->span = (uint32_t)(range.high - range.low);
    return 0;
}

static void want(struct build *build, const struct policy_key *key) {
    for (uint32_t i = 0; i < key->count; i++)
        build->out->wanted |= FIELDS_BIT(key->fields[i]);
}

/// Adds the bit of an ALPN protocol to a mask. Fails if the policy has more than 32 protocols.
static int protocol_bit(struct build *build, const struct policy_place *place,
                        policy_value protocol, uint32_t *mask) {
    const int result = hostnames_add_protocol(&build->out->hosts, protocol, mask);
    char token[VALUE_SHORT_BYTES + 1] = {0};

    if (result != -ENOSPC)
        return result;
    for (int i = 0; i < VALUE_SHORT_BYTES; i++)
        token[i] = (char)(protocol >> (8 * (VALUE_SHORT_BYTES - 1 - i)));
    return refuse(build, place, token, "more than 32 protocols of tls alpn in a policy");
}

/// Compiles a match of ALPN protocols: its comparison holds if the client offers one of the list.
static int compile_protocols(struct build *build, const struct policy_match *match,
                             const struct policy_place *place, struct compile_op *op) {
    const bool single = match->right == POLICY_RIGHT_RANGE;
    const struct policy_range *ranges = single ? &match->range : match->elements.ranges;
    const uint32_t count = single ? 1 : match->elements.count;
    int result = 0;

    op->kind = COMPILE_NARROW;
    op->field = POLICY_TLS_ALPN;
    op->low = 1;
    op->span = UINT32_MAX - 1;
    for (uint32_t i = 0; result == 0 && i < count; i++)
        result = protocol_bit(build, place, ranges[i].low, &op->mask);
    return result;
}

static int compile_match(struct build *build, const struct policy_match *match,
                         const struct policy_place *place, struct compile_op *op) {
    want(build, &match->key);
    op->negated = match->op == POLICY_NE;
    if (match->key.count == 1 && match->key.fields[0] == POLICY_TLS_ALPN)
        return compile_protocols(build, match, place, op);
    if (match->right == POLICY_RIGHT_RANGE)
        return compile_range(build, match, place, op);
    op->kind = COMPILE_SET;
    return compile_set(build, match, op);
}

static int compile_map(struct build *build, const struct policy_match *map, enum compile_kind kind,
                       struct compile_op *op) {
    want(build, &map->key);
    op->kind = (uint8_t)kind;
    return compile_set(build, map, op);
}

/// Compiles a limit into nanoseconds, like nft_limit_init. parse has refused values that overflow.
static int compile_limit(struct build *build, const struct policy_limit *limit,
                         struct compile_op *op) {
    const uint64_t nsecs = limit->unit_s * NANOSECONDS;
    const uint64_t cost = nsecs / limit->rate;
    const uint64_t size = limit->of_bytes ? nsecs * (limit->rate + limit->burst) / limit->rate
                          : cost == 0 ? FLOW_LIMIT_SIZE_MAX // never exceeded: packets cost nothing
                                      : cost * limit->burst;
    const struct flow_limit made = {
        .nsecs = nsecs,
        .rate = limit->rate,
        .size = size < FLOW_LIMIT_SIZE_MAX ? (int64_t)size : FLOW_LIMIT_SIZE_MAX,
        .cost = (int64_t)cost,
        .of_bytes = limit->of_bytes,
        .over = limit->over,
    };

    op->kind = COMPILE_LIMIT;
    op->index = build->out->limit_count;
    return ADD(build->out->limits, build->out->limit_count, made);
}

static int compile_quota(struct build *build, const struct policy_quota *quota,
                         struct compile_op *op) {
    const struct flow_quota made = {quota->bytes, quota->used, quota->over};

    op->kind = COMPILE_QUOTA;
    op->index = build->out->quota_count;
    return ADD(build->out->quotas, build->out->quota_count, made);
}

static int compile_mark(struct build *build, const struct policy_mark_set *mark,
                        struct compile_op *op) {
    if (mark->has_map)
        return compile_map(build, &mark->map, COMPILE_MARK_MAP, op);
    op->kind = COMPILE_MARK;
    op->mask = mark->keep;
    op->low = mark->toggle;
    return 0;
}

static int compile_statement(struct build *build, const struct policy_statement *statement,
                             struct compile_place place, struct compile_op *op) {
    struct compiled *out = build->out;

    switch (statement->kind) {
    case POLICY_MATCH:
        return compile_match(build, statement->match, &statement->place, op);
    case POLICY_COUNTER:
        op->kind = COMPILE_COUNTER;
        op->index = out->counter_count;
        return ADD(out->counters, out->counter_count,
                   ((struct compile_counter){place, statement->counter}));
    case POLICY_LIMIT:
        return compile_limit(build, &statement->limit, op);
    case POLICY_QUOTA:
        return compile_quota(build, &statement->quota, op);
    case POLICY_LOG:
        op->kind = COMPILE_LOG;
        op->index = out->log_count;
        return ADD(out->logs, out->log_count, place);
    case POLICY_MARK_SET:
        return compile_mark(build, statement->mark_set, op);
    case POLICY_VERDICT:
        op->kind = COMPILE_VERDICT;
        op->code = (uint8_t)statement->target->verdict;
        op->index = build->first_chain + statement->target->chain_index;
        return 0;
    case POLICY_REJECT:
        op->kind = COMPILE_REJECT;
        op->code = (uint8_t)statement->reject.kind;
        op->index = statement->reject.code;
        return 0;
    case POLICY_VMAP:
        return compile_map(build, statement->match, COMPILE_VMAP, op);
    }
    return -EINVAL;
}

static int compile_rule(struct build *build, const struct policy_rule *rule,
                        struct compile_place place) {
    struct compiled *out = build->out;
    const struct compile_rule made = {
        .first = out->op_count,
        .count = rule->count,
        .needs = dependency_needs(build->table->family, rule),
        .names_at = dependency_names_at(rule),
    };
    int result = ADD(out->rules, out->rule_count, made);

    for (uint32_t i = 0; result == 0 && i < rule->count; i++) {
        struct compile_op op = {0};

        place.statement = i;
        result = compile_statement(build, &rule->statements[i], place, &op);
        if (result == 0)
            result = ADD(out->ops, out->op_count, op);
    }
    return result;
}

static int compile_chain(struct build *build, const struct policy_chain *chain,
                         struct compile_place place) {
    struct compiled *out = build->out;
    const struct compile_chain made = {
        .first_rule = out->rule_count,
        .rule_count = chain->count,
        .policy = chain->policy,
        .place = place,
    };
    const uint32_t number = out->chain_count;
    int result = ADD(out->chains, out->chain_count, made);

    for (uint32_t i = 0; result == 0 && i < chain->count; i++) {
        place.rule = i;
        result = compile_rule(build, &chain->rules[i], place);
    }
    if (result < 0)
        return result;
    return build->settings->linear ? index_none(out, number)
                                   : index_chain(out, build->table, chain, number);
}

static int compile_table(struct build *build, uint32_t number) {
    int result = 0;

    build->table = &build->policy->tables[number];
    build->first_chain = build->out->chain_count;
    build->first_set = build->out->set_count;
    for (uint32_t i = 0; result == 0 && i < build->table->set_count; i++)
        result = add_named_set(build, &build->table->sets[i]);
    for (uint32_t i = 0; result == 0 && i < build->table->chain_count; i++)
        result = compile_chain(build, &build->table->chains[i],
                               (struct compile_place){.table = number, .chain = i});
    return result;
}

/// A base chain while chains are being sorted.
struct base {
    const struct policy_chain *chain;
    enum policy_family family;
    uint32_t number;
};

/// Orders base chains by ascending priority; of equal ones the chain declared last comes first.
static int compare_bases(const void *left, const void *right) {
    const struct policy_chain *a = ((const struct base *)left)->chain;
    const struct policy_chain *b = ((const struct base *)right)->chain;

    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    return (a->declared < b->declared) - (a->declared > b->declared);
}

/// Adds the base chains of a hook for packets of a family (0 = IPv4, 1 = IPv6), in their order.
static int add_bases(struct compiled *out, const struct base *bases, uint32_t count, int hook,
                     int family) {
    const enum policy_family other = family == 0 ? POLICY_IP6 : POLICY_IP;
    struct compile_bases *list = &out->hooks[hook][family];
    int result = 0;

    list->first = out->base_count;
    for (uint32_t i = 0; result == 0 && i < count; i++)
        if ((int)bases[i].chain->hook == hook && bases[i].family != other)
            result = ADD(out->bases, out->base_count, bases[i].number);
    list->count = out->base_count - list->first;
    return result;
}

static int compile_bases(struct build *build) {
    struct base *bases = NULL;
    uint32_t count = 0, number = 0;
    int result = 0;

    for (uint32_t i = 0; i < build->policy->table_count; i++) {
        const struct policy_table *table = &build->policy->tables[i];

        for (uint32_t j = 0; j < table->chain_count; j++, number++)
            if (result == 0 && table->chains[j].is_base)
                result =
                    ADD(bases, count, ((struct base){&table->chains[j], table->family, number}));
    }
    if (count > 0)
        qsort(bases, count, sizeof *bases, compare_bases);
    for (int hook = 0; hook < POLICY_HOOK_COUNT; hook++)
        for (int family = 0; result == 0 && family < COMPILE_FAMILIES; family++)
            result = add_bases(build->out, bases, count, hook, family);
    free(bases);
    return result;
}

static int compile_requirements(struct build *build) {
    for (int family = 0; family < COMPILE_FAMILIES; family++) {
        struct requirement requirement;

        if (requirement_of(build->policy, family == 1, &requirement) < 0)
            return -ENOMEM;
        requirement_join(&build->out->requirement, &requirement);
    }
    return 0;
}

int compile_policy(const struct policy *policy, const struct compile_settings *settings,
                   struct compiled **compiled, struct failure *failure) {
    struct build build = {
        .policy = policy,
        .settings = settings,
        .failure = failure,
        .out = calloc(1, sizeof *build.out),
    };
    int result = build.out ? 0 : -ENOMEM;

    if (result == 0)
        hostnames_make(&build.out->hosts, policy->hostnames);
    for (uint32_t i = 0; result == 0 && i < policy->table_count; i++)
        result = compile_table(&build, i);
    if (result == 0)
        result = compile_bases(&build);
    if (result == 0)
        result = compile_requirements(&build);
    if (result == -ENOMEM)
        failure_set_start(failure, "malloc", ENOMEM);
    if (result < 0)
        compile_free(build.out);
    else
        *compiled = build.out;
    return result;
}

void compile_free(struct compiled *compiled) {
    if (!compiled)
        return;
    for (uint32_t i = 0; i < compiled->set_count; i++)
        set_free(&compiled->sets[i]);
    for (uint32_t i = 0; i < compiled->index_count; i++)
        candidates_free(&compiled->indexes[i].candidates);
    learning_free(compiled);
    hostnames_free(&compiled->hosts);
    free(compiled->ops);
    free(compiled->wides);
    free(compiled->keys);
    free(compiled->sets);
    free(compiled->rules);
    free(compiled->chains);
    free(compiled->indexes);
    free(compiled->always);
    free(compiled->readers);
    free(compiled->bases);
    free(compiled->counters);
    free(compiled->logs);
    free(compiled->limits);
    free(compiled->quotas);
    free(compiled);
}

const struct requirement *compile_requirement(const struct compiled *compiled) {
    return &compiled->requirement;
}

uint32_t compile_counters(const struct compiled *compiled) { return compiled->counter_count; }

struct compile_place compile_counter_at(const struct compiled *compiled, uint32_t counter) {
    return compiled->counters[counter].place;
}

struct policy_counter compile_counter_start(const struct compiled *compiled, uint32_t counter) {
    return compiled->counters[counter].start;
}

uint32_t compile_logs(const struct compiled *compiled) { return compiled->log_count; }

struct compile_place compile_log_at(const struct compiled *compiled, uint32_t log) {
    return compiled->logs[log];
}

struct compile_place compile_chain_at(const struct compiled *compiled, uint32_t chain) {
    return compiled->chains[chain].place;
}

struct compile_place compile_rule_at(const struct compiled *compiled, uint32_t rule) {
    uint32_t from = 0, to = compiled->chain_count;
    struct compile_place place;

    // The rule's chain is the last chain whose first rule is this rule or an earlier rule. An empty
    // chain has the same first rule as the chain after it.
    while (to - from > 1) {
        const uint32_t middle = from + (to - from) / 2;

        if (compiled->chains[middle].first_rule <= rule)
            from = middle;
        else
            to = middle;
    }
    place = compiled->chains[from].place;
    place.rule = rule - compiled->chains[from].first_rule;
    return place;
}
