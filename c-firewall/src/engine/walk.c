// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/walk.h"

#include "engine/dependency.h"
#include "engine/fields.h"
#include "engine/frame.h"
#include "engine/matches.h"
#include "engine/statement.h"
#include "engine/ways.h"

static enum decide_why look_on(struct walk *walk, const struct compile_rule *rule,
                               uint32_t *statement, enum decide_why why, struct set_target *target)
    __attribute__((cold, noinline));

/// Evaluates the rest of a rule that reads a field beyond the captured bytes or an unknown name, up
/// to its first statement with an effect. If another match or a map of names fails, the rule does
/// not hold, whatever the unknown value is.
/// - statement: in: index of the statement with the unknown value, 0 if a condition is unknown;
///   out: index of the match or map that fails, if one fails.
/// - why: DECIDE_BEYOND or DECIDE_UNKNOWN.
/// - target: out: POLICY_DROP if no match or map fails.
/// - Returns the reason why a match or map fails. Otherwise returns why. Then walk->stuck is the
///   statement, and the outcome says which kinds of unknown values the rule reads (undecidable,
///   undecided).
static enum decide_why look_on(struct walk *walk, const struct compile_rule *rule,
                               uint32_t *statement, enum decide_why why,
                               struct set_target *target) {
    const struct compile_op *ops = statement_ops(walk, rule);
    uint64_t read = matches_looks_at(walk->compiled, &ops[*statement]);

    for (uint32_t i = *statement; i < rule->count; i++) {
        const bool is_match = ops[i].kind <= COMPILE_LEARNED;
        const enum decide_why found =
            is_match ? statement_walk(walk, &ops[i], target) : statement_look_up(walk, &ops[i]);
        const bool is_unknown = found == DECIDE_BEYOND || found == DECIDE_UNKNOWN;

        if (found != DECIDE_HELD && !is_unknown) {
            *statement = i;
            return found;
        }
        if (!is_match)
            break;
        if (is_unknown)
            read |= matches_looks_at(walk->compiled, &ops[i]);
    }
    walk->stuck = *statement;
    walk->outcome->undecidable = why == DECIDE_BEYOND || (read & walk->fields.beyond);
    walk->outcome->undecided = why == DECIDE_UNKNOWN || (read & walk->fields.unknown);
    target->verdict = POLICY_DROP;
    return why;
}

/// Sets outcome.read_names to whether names are known and a rule's evaluated statements read them.
/// A rule that begins with a name counts even if its conditions are not met. Rules after a rule
/// with an unknown result don't count, because ways.c does not call this function.
/// - statement: index of the last evaluated statement.
__attribute__((cold, noinline)) static void
note_names(struct walk *walk, const struct compile_rule *rule, uint32_t statement) {
    walk->outcome->read_names = fields_has_names(&walk->fields) && statement >= rule->names_at;
}

/// Evaluates a rule. Returns its target: POLICY_CONTINUE if it does not hold or has no target;
/// POLICY_DROP if the result is unknown, with outcome->undecidable or outcome->undecided set.
static inline struct set_target walk_rule(struct walk *walk, uint32_t rule) {
    const struct compile_rule *walked = &walk->compiled->rules[rule];
    const struct compile_op *ops = statement_ops(walk, walked);
    struct set_target target = {.verdict = POLICY_CONTINUE};
    enum decide_why why = walked->needs == 0 ? DECIDE_HELD : statement_meets(walk, walked->needs);
    uint32_t i = 0;

    while (why == DECIDE_HELD && i < walked->count) {
        why = statement_walk(walk, &ops[i], &target);
        i += why == DECIDE_HELD;
    }
    if (why == DECIDE_BEYOND || why == DECIDE_UNKNOWN)
        why = look_on(walk, walked, &i, why, &target);
    if ((walked->needs & DEPENDENCY_READS_NAMES) && !walk->outcome->read_names)
        note_names(walk, walked, i);
    if (walk->recorder)
        statement_record(walk, rule, i, why, &target,
                         why == DECIDE_BEYOND || why == DECIDE_UNKNOWN);
    return target;
}

static bool may_hold(enum decide_why why) { return why == DECIDE_HELD || why == DECIDE_BEYOND; }

/// Returns true if neither a rule's conditions nor its matches before its first statement that
/// reads a name fail.
__attribute__((cold, noinline)) static bool reaches_names(struct walk *walk,
                                                          const struct compile_rule *rule) {
    const struct compile_op *ops = statement_ops(walk, rule);
    struct set_target target = {.verdict = POLICY_CONTINUE};
    bool reaches = may_hold(statement_meets(walk, rule->needs));

    for (uint32_t i = 0; reaches && i < rule->names_at; i++)
        reaches = may_hold(statement_walk(walk, &ops[i], &target));
    return reaches;
}

/// Sets outcome.read_names if a rule that was skipped would have read the names.
/// - end: rule up to which the current chain was evaluated, or FRAME_NO_RULE.
__attribute__((noinline)) static void note_readers(struct walk *walk, uint32_t end) {
    const struct compile_chain *chain = &walk->compiled->chains[walk->frame.chain];
    const struct compile_finder *finder = &chain->finders[walk->reach];

    for (uint32_t i = 0; i < finder->reader_count && !walk->outcome->read_names; i++) {
        const uint32_t reader = walk->compiled->readers[finder->first_reader + i];
        const struct compile_rule *rule = &walk->compiled->rules[reader];

        if (reader < end)
            walk->outcome->read_names = rule->names_at == 0 || reaches_names(walk, rule);
    }
}

/// Evaluates a base chain with all chains that it leads to. Returns POLICY_ACCEPT or POLICY_DROP.
static inline enum policy_verdict walk_base(struct walk *walk, uint32_t base) {
    walk->depth = 0;
    walk->way = 0;
    frame_enter_newly(walk, base);
    for (;;) {
        const uint32_t rule = frame_next_rule(&walk->frame);
        struct set_target target = {.verdict = POLICY_RETURN};

        if (rule != FRAME_NO_RULE)
            target = walk_rule(walk, rule);
        // The most frequent case comes first: a comparison costs less than a jump table.
        if (target.verdict == POLICY_CONTINUE)
            continue;
        if (fields_has_names(&walk->fields) && !walk->outcome->read_names)
            note_readers(walk, rule);
        switch (target.verdict) {
        case POLICY_ACCEPT:
        case POLICY_DROP:
            return frame_end_by_rule(walk, target.verdict, rule);
        case POLICY_CONTINUE:
            break;
        case POLICY_RETURN:
            if (frame_leave(walk))
                break;
            return frame_end_by_policy(walk, base);
        case POLICY_JUMP:
            frame_remember(walk, rule, (struct frame_fork){0});
            walk->way++;
            frame_enter_newly(walk, target.chain);
            break;
        case POLICY_GOTO:
            walk->way++;
            frame_enter_newly(walk, target.chain);
            break;
        }
    }
}

/// Returns the set of fields by which rules can be found.
/// - beyond: bits of the fields beyond the captured bytes.
/// - unknown: bits of the unknown names.
static enum compile_reach reach_of(uint64_t beyond, uint64_t unknown) {
    if (beyond == 0)
        return unknown == 0 ? COMPILE_WHOLE : COMPILE_UNNAMED;
    return (beyond & ~fields_behind_ip()) ? COMPILE_NONE : COMPILE_BEYOND_COPY;
}

void walk_policy(const struct decide_settings *settings, const struct compiled *compiled,
                 struct flow *flow, struct flow_counters *counters,
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
            if (outcome->undecidable || outcome->undecided)
                ways_go_on(&walk, settings,
                           (struct compile_bases){bases.first + i, bases.count - i});
            else if (outcome->verdict != VERDICT_REJECT)
                outcome->verdict = VERDICT_DROP;
            return;
        }
    outcome->verdict = VERDICT_ACCEPT;
}
