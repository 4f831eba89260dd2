// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/walk.h"

#include <netinet/in.h>

#include "engine/dependency.h"
#include "engine/fields.h"
#include "engine/matches.h"

enum {
    LISTS_MAX = COMPILE_INDEXES_MAX + 1, // of rules to be walked in one chain
};

#define NO_RULE UINT32_MAX

/// A list of numbers of rules that is being walked.
struct list {
    const uint32_t *at, *end;
};

/// A chain that is being walked: its next rule is the lowest of all lists' next.
struct frame {
    uint32_t chain;
    uint32_t count;
    struct list lists[LISTS_MAX];
};

/// Where a walk goes on after a return.
struct waiting {
    uint32_t chain;
    uint32_t rule; // that jumped
    uint32_t way;
};

/// A packet on its way through the policy.
struct walk {
    const struct compiled *compiled;
    struct flow *flow;
    struct flow_counters *counters;
    const struct decide_input *input;
    const struct decide_recorder *recorder; // NULL = none
    struct decide_outcome *outcome;
    struct fields fields;
    struct frame frame; // the chain at hand
    enum compile_reach reach;
    uint32_t way;   // jumps and gotos taken on the way there
    uint32_t depth; // jumps to return from
    struct waiting stack[POLICY_WAY_MAX];
};

static void set_mark(struct walk *walk, uint32_t mark) {
    walk->fields.narrow[POLICY_META_MARK] = mark;
    walk->outcome->mark = mark;
    walk->outcome->mark_set = true;
}

static enum match mark_map(struct walk *walk, const struct compile_op *op) {
    uint32_t element;
    const enum match found = matches_find(walk->compiled, &walk->fields, op, &element);

    if (found == MATCH_FOUND)
        set_mark(walk, walk->compiled->sets[op->index].marks[element]);
    return found;
}

static enum match vmap(const struct walk *walk, const struct compile_op *op,
                       struct set_target *target) {
    uint32_t element;
    const enum match found = matches_find(walk->compiled, &walk->fields, op, &element);

    if (found == MATCH_FOUND)
        *target = walk->compiled->sets[op->index].targets[element];
    return found;
}

/// Counts a log statement that was passed, and notes it.
static void take_log(struct walk *walk, uint32_t log) {
    struct decide_outcome *outcome = walk->outcome;

    flow_log(walk->counters, log);
    if (outcome->log_count < DECIDE_LOGS_MAX)
        outcome->logs[outcome->log_count] = log;
    outcome->log_count++;
}

/// Whether the packet is what a rule asks for before its first statement: DECIDE_HELD,
/// DECIDE_NO_ANSWER, or DECIDE_BEYOND if that is not known.
static enum decide_why meets(const struct walk *walk, uint32_t needs) {
    const struct packet *packet = walk->input->packet;
    const uint32_t nfproto = walk->fields.narrow[POLICY_META_NFPROTO];

    if (((needs & DEPENDENCY_NEEDS_IPV4) && nfproto != FIELDS_IPV4) ||
        ((needs & DEPENDENCY_NEEDS_IPV6) && nfproto != FIELDS_IPV6))
        return DECIDE_NO_ANSWER;
    if (!(needs & DEPENDENCY_NEEDS_TCP))
        return DECIDE_HELD;
    if (!packet->has_transport)
        return packet->headers_beyond ? DECIDE_BEYOND : DECIDE_NO_ANSWER;
    return packet->transport_protocol == IPPROTO_TCP ? DECIDE_HELD : DECIDE_NO_ANSWER;
}

static void reject(struct walk *walk, const struct compile_op *op) {
    walk->outcome->verdict = VERDICT_REJECT;
    walk->outcome->reject = (struct policy_reject){
        .kind = (enum policy_reject_kind)op->code,
        .code = (uint8_t)op->index,
    };
}

/// Does what a statement says.
/// - target: where it leads, if it is a verdict; else untouched.
/// - Returns DECIDE_HELD if the rule goes on after it.
/// - A call of a function for every statement would cost a decision a sixth more instructions.
__attribute__((always_inline)) static inline enum decide_why
walk_statement(struct walk *walk, const struct compile_op *op, struct set_target *target) {
    const struct compiled *compiled = walk->compiled;
    const struct decide_input *input = walk->input;
    enum match found = MATCH_FOUND;

    switch ((enum compile_kind)op->kind) {
    case COMPILE_NARROW:
        found = matches_narrow(&walk->fields, op);
        break;
    case COMPILE_WIDE:
        found = matches_wide(walk->compiled, &walk->fields, op);
        break;
    case COMPILE_SET:
        found = matches_set(walk->compiled, &walk->fields, op);
        break;
    case COMPILE_LEARNED:
        found = matches_learned(walk->compiled, &walk->fields, op, input->now_ns);
        break;
    case COMPILE_COUNTER:
        flow_count(walk->counters, op->index, input->length);
        break;
    case COMPILE_LIMIT:
        if (!flow_limit_holds(walk->flow, op->index, &compiled->limits[op->index], input->length,
                              input->now_ns))
            return DECIDE_LIMIT;
        break;
    case COMPILE_QUOTA:
        if (!flow_quota_holds(walk->flow, op->index, &compiled->quotas[op->index], input->length))
            return DECIDE_QUOTA;
        break;
    case COMPILE_LOG:
        take_log(walk, op->index);
        break;
    case COMPILE_MARK:
        set_mark(walk, (walk->fields.narrow[POLICY_META_MARK] & op->mask) ^ op->low);
        break;
    case COMPILE_MARK_MAP:
        found = mark_map(walk, op);
        break;
    case COMPILE_VERDICT:
        *target = (struct set_target){(enum policy_verdict)op->code, op->index};
        break;
    case COMPILE_REJECT:
        reject(walk, op);
        target->verdict = POLICY_DROP;
        break;
    case COMPILE_VMAP:
        found = vmap(walk, op, target);
        break;
    }
    return matches_why_not(found);
}

/// Reports a rule that was walked as far as statement.
static void record(const struct walk *walk, uint32_t rule, uint32_t statement, enum decide_why why,
                   const struct set_target *target) {
    const struct compile_rule *walked = &walk->compiled->rules[rule];
    struct decide_step step = {
        .place = walk->compiled->chains[walk->frame.chain].place,
        .depth = walk->way,
        .why = why,
        .has_verdict = why == DECIDE_HELD && target->verdict != POLICY_CONTINUE,
        .verdict = target->verdict,
        .missing = POLICY_META_L4PROTO, // which is asked for before the first statement
    };

    step.place.rule = rule - walk->compiled->chains[walk->frame.chain].first_rule;
    step.place.statement = statement;
    if (why == DECIDE_DIFFERS || why == DECIDE_MISSING || why == DECIDE_BEYOND ||
        why == DECIDE_UNKNOWN)
        matches_note_values(walk->compiled, &walk->fields,
                            &walk->compiled->ops[walked->first + statement], &step);
    walk->recorder->rule(walk->recorder->context, &step);
}

static enum decide_why look_on(struct walk *walk, const struct compile_rule *rule,
                               uint32_t *statement, enum decide_why why, struct set_target *target)
    __attribute__((cold, noinline));

/// Looks on in a rule that reads a field beyond the captured bytes or a name that is not known, for
/// a match that does not hold whatever that field is, as long as nothing has an effect.
/// - statement: that reads it; becomes the one that does not hold.
/// - why: DECIDE_BEYOND or DECIDE_UNKNOWN.
/// - target: becomes POLICY_DROP if all that can be told holds.
/// - Returns why that one does not; or why, and says in outcome what the rule reads.
static enum decide_why look_on(struct walk *walk, const struct compile_rule *rule,
                               uint32_t *statement, enum decide_why why,
                               struct set_target *target) {
    const struct compile_op *ops = &walk->compiled->ops[rule->first];
    uint64_t read = matches_looks_at(walk->compiled, &ops[*statement]);

    for (uint32_t i = *statement; i < rule->count && ops[i].kind <= COMPILE_LEARNED; i++) {
        const enum decide_why other = walk_statement(walk, &ops[i], target);

        if (other == DECIDE_BEYOND || other == DECIDE_UNKNOWN) {
            read |= matches_looks_at(walk->compiled, &ops[i]);
        } else if (other != DECIDE_HELD) {
            *statement = i;
            return other;
        }
    }
    walk->outcome->undecidable = why == DECIDE_BEYOND || (read & walk->fields.beyond);
    walk->outcome->undecided = why == DECIDE_UNKNOWN || (read & walk->fields.unknown);
    target->verdict = POLICY_DROP;
    return why;
}

/// Notes whether a rule came to a statement that looks at names, as none has before.
/// - statement: the last that was looked at.
__attribute__((cold, noinline)) static void
note_names(struct walk *walk, const struct compile_rule *rule, uint32_t statement) {
    const struct compile_op *ops = &walk->compiled->ops[rule->first];

    if (!(walk->fields.present & POLICY_FIELDS_OF_NAMES))
        return;
    for (uint32_t i = 0; i <= statement && i < rule->count; i++)
        if (matches_looks_at(walk->compiled, &ops[i]) & POLICY_FIELDS_OF_NAMES)
            walk->outcome->read_names = true;
}

/// Walks a rule. Gives where it leads: POLICY_CONTINUE if nowhere, POLICY_DROP if it can't be
/// decided, as outcome->undecidable or outcome->undecided say then.
static inline struct set_target walk_rule(struct walk *walk, uint32_t rule) {
    const struct compile_rule *walked = &walk->compiled->rules[rule];
    const struct compile_op *ops = &walk->compiled->ops[walked->first];
    struct set_target target = {.verdict = POLICY_CONTINUE};
    enum decide_why why = walked->needs == 0 ? DECIDE_HELD : meets(walk, walked->needs);
    uint32_t i = 0;

    while (why == DECIDE_HELD && i < walked->count) {
        why = walk_statement(walk, &ops[i], &target);
        i += why == DECIDE_HELD;
    }
    if (why == DECIDE_BEYOND || why == DECIDE_UNKNOWN)
        why = look_on(walk, walked, &i, why, &target);
    if ((walked->needs & DEPENDENCY_READS_NAMES) && !walk->outcome->read_names)
        note_names(walk, walked, i);
    if (walk->recorder)
        record(walk, rule, i, why, &target);
    return target;
}

static void add_list(struct frame *frame, const uint32_t *from, uint32_t count) {
    if (count > 0)
        frame->lists[frame->count++] = (struct list){from, from + count};
}

/// Adds the rules that an index has for the packet.
static void add_candidates(struct walk *walk, const struct compile_index *index) {
    const struct candidates *candidates = &index->candidates;
    uint32_t list;

    if (!fields_is_present(&walk->fields, index->field))
        return;
    if (fields_is_name(index->field))
        walk->outcome->read_names = true;
    if (index->slot < FIELDS_WIDE_COUNT)
        list = lookup_find_wide(&candidates->lookup, walk->fields.wide[index->slot]);
    else
        list = lookup_find(&candidates->lookup, walk->fields.narrow[index->field]);
    if (list != LOOKUP_NONE)
        add_list(&walk->frame, &candidates->ids[candidates->starts[list]],
                 candidates->starts[list + 1] - candidates->starts[list]);
}

static void enter(struct walk *walk, uint32_t chain) {
    const struct compile_finder *finder = &walk->compiled->chains[chain].finders[walk->reach];

    walk->frame.chain = chain;
    walk->frame.count = 0;
    add_list(&walk->frame, &walk->compiled->always[finder->first_always], finder->always_count);
    for (uint32_t i = 0; i < finder->index_count; i++)
        add_candidates(walk, &walk->compiled->indexes[finder->first_index + i]);
}

/// Enters a chain from another one, or as the first.
static void enter_newly(struct walk *walk, uint32_t chain) {
    enter(walk, chain);
    if (walk->recorder)
        walk->recorder->chain(walk->recorder->context, walk->compiled->chains[chain].place,
                              walk->way);
}

/// Skips the rules of a list before this one.
static void skip(struct list *list, uint32_t rule) {
    const uint32_t *from = list->at, *to = list->end;

    while (from < to) {
        const uint32_t *middle = from + (to - from) / 2;

        if (*middle <= rule)
            from = middle + 1;
        else
            to = middle;
    }
    list->at = from;
}

/// The next rule of the chain at hand, or NO_RULE.
static inline uint32_t next_rule(struct frame *frame) {
    struct list *lowest = &frame->lists[0];

    if (frame->count == 0)
        return NO_RULE;
    for (uint32_t i = 1; i < frame->count; i++) {
        struct list *list = &frame->lists[i];

        if (list->at < list->end && (lowest->at == lowest->end || *list->at < *lowest->at))
            lowest = list;
    }
    return lowest->at < lowest->end ? *lowest->at++ : NO_RULE;
}

/// Goes on after the rule that jumped here. Returns false if there is none.
static bool leave(struct walk *walk) {
    const struct waiting *waiting;

    if (walk->depth == 0)
        return false;
    waiting = &walk->stack[--walk->depth];
    walk->way = waiting->way;
    enter(walk, waiting->chain);
    for (uint32_t i = 0; i < walk->frame.count; i++)
        skip(&walk->frame.lists[i], waiting->rule);
    return true;
}

/// Notes where to go on after a return. There is room: parse refuses ways of more than
/// POLICY_WAY_MAX chains.
static void remember(struct walk *walk, uint32_t rule) {
    if (walk->depth < POLICY_WAY_MAX)
        walk->stack[walk->depth++] = (struct waiting){walk->frame.chain, rule, walk->way};
}

static enum policy_verdict end_by_rule(struct walk *walk, enum policy_verdict verdict,
                                       uint32_t rule) {
    walk->outcome->by = DECIDE_BY_RULE;
    walk->outcome->rule = rule;
    walk->outcome->chain = walk->frame.chain;
    return verdict;
}

static enum policy_verdict end_by_policy(struct walk *walk, uint32_t base) {
    walk->outcome->by = DECIDE_BY_POLICY;
    walk->outcome->chain = base;
    return walk->compiled->chains[base].policy;
}

/// Walks a base chain and all that it leads to. Returns POLICY_ACCEPT or POLICY_DROP.
static inline enum policy_verdict walk_base(struct walk *walk, uint32_t base) {
    walk->depth = 0;
    walk->way = 0;
    enter_newly(walk, base);
    for (;;) {
        const uint32_t rule = next_rule(&walk->frame);
        struct set_target target = {.verdict = POLICY_RETURN};

        if (rule != NO_RULE)
            target = walk_rule(walk, rule);
        // As after most rules: a comparison costs less than a jump by a table.
        if (target.verdict == POLICY_CONTINUE)
            continue;
        switch (target.verdict) {
        case POLICY_ACCEPT:
        case POLICY_DROP:
            return end_by_rule(walk, target.verdict, rule);
        case POLICY_CONTINUE:
            break;
        case POLICY_RETURN:
            if (leave(walk))
                break;
            return end_by_policy(walk, base);
        case POLICY_JUMP:
            remember(walk, rule);
            walk->way++;
            enter_newly(walk, target.chain);
            break;
        case POLICY_GOTO:
            walk->way++;
            enter_newly(walk, target.chain);
            break;
        }
    }
}

/// By which fields rules are found where some are beyond the captured bytes, or names are not
/// known.
static enum compile_reach reach_of(uint64_t beyond, uint64_t unknown) {
    if (beyond == 0)
        return unknown == 0 ? COMPILE_WHOLE : COMPILE_UNNAMED;
    return (beyond & ~fields_behind_ip()) ? COMPILE_NONE : COMPILE_BEYOND_COPY;
}

void walk_policy(const struct compiled *compiled, struct flow *flow, struct flow_counters *counters,
                 const struct decide_input *input, struct compile_bases bases, uint8_t nfproto,
                 const struct decide_recorder *recorder, struct decide_outcome *outcome) {
    struct walk walk;

    walk.compiled = compiled;
    walk.flow = flow;
    walk.counters = counters;
    walk.input = input;
    walk.recorder = recorder;
    walk.outcome = outcome;
    fields_read(&walk.fields, compiled->wanted, nfproto, input);
    walk.reach = reach_of(walk.fields.beyond, walk.fields.unknown);
    for (uint32_t i = 0; i < bases.count; i++)
        if (walk_base(&walk, compiled->bases[bases.first + i]) == POLICY_DROP) {
            if (outcome->verdict != VERDICT_REJECT && !outcome->undecidable && !outcome->undecided)
                outcome->verdict = VERDICT_DROP;
            return;
        }
    outcome->verdict = VERDICT_ACCEPT;
}
