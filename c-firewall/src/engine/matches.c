// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/matches.h"

#include "engine/learned.h"
#include "engine/lookup.h"
#include "engine/set.h"

static enum match found_element(uint32_t element) {
    return matches_found_if(element != LOOKUP_NONE);
}

/// Returns the result of a match whose key has a field without a value. It is MATCH_MISSING if the
/// packet lacks at least one of the fields. Otherwise it is MATCH_BEYOND if at least one field lies
/// beyond the captured bytes, and MATCH_UNKNOWN if none does.
static enum match key_not_present(const struct fields *fields, const struct policy_key *key) {
    uint64_t open = 0;

    for (uint32_t i = 0; i < key->count; i++)
        open |= FIELDS_BIT(key->fields[i]);
    open &= ~fields->present;
    if (open & ~(fields->beyond | fields->unknown))
        return MATCH_MISSING;
    return (open & fields->beyond) ? MATCH_BEYOND : MATCH_UNKNOWN;
}

static enum match find_key(const struct compiled *compiled, const struct fields *fields,
                           const struct compile_op *op, uint32_t *element) {
    const struct policy_key *key = &compiled->keys[op->low];
    uint64_t words[FIELDS_KEY_WORDS_MAX];
    const uint32_t count = fields_words(fields, key, words);

    if (count == 0)
        return key_not_present(fields, key);
    *element = set_find(&compiled->sets[op->index], fields, key, words, count);
    return found_element(*element);
}

static enum match find_wide(const struct compiled *compiled, const struct fields *fields,
                            const struct compile_op *op, uint32_t *element) {
    const struct compile_wide *wide = &compiled->wides[op->low];

    if (!fields_is_present(fields, wide->field))
        return matches_not_present(fields, wide->field);
    *element =
        lookup_find_wide(&compiled->sets[op->index].single, fields->wide[wide->slot] & wide->mask);
    return found_element(*element);
}

static enum match find_narrow(const struct compiled *compiled, const struct fields *fields,
                              const struct compile_op *op, uint32_t *element) {
    if (!fields_is_present(fields, op->field))
        return matches_not_present(fields, op->field);
    *element = lookup_find(&compiled->sets[op->index].single, fields->narrow[op->field] & op->mask);
    return found_element(*element);
}

enum match matches_find(const struct compiled *compiled, const struct fields *fields,
                        const struct compile_op *op, uint32_t *element) {
    switch ((enum compile_shape)op->code) {
    case COMPILE_SHAPE_NARROW:
        return find_narrow(compiled, fields, op, element);
    case COMPILE_SHAPE_WIDE:
        return find_wide(compiled, fields, op, element);
    case COMPILE_SHAPE_KEY:
        break;
    }
    return find_key(compiled, fields, op, element);
}

enum match matches_set(const struct compiled *compiled, const struct fields *fields,
                       const struct compile_op *op) {
    uint32_t element;
    const enum match found = matches_find(compiled, fields, op, &element);

    if (found < MATCH_NOT)
        return found;
    return matches_found_if((found == MATCH_FOUND) != op->negated);
}

enum match matches_learned(const struct compiled *compiled, const struct fields *fields,
                           const struct compile_op *op, uint64_t now_ns) {
    const bool is_wide = op->code == COMPILE_SHAPE_WIDE;
    const enum policy_field field =
        is_wide ? compiled->wides[op->low].field : (enum policy_field)op->field;
    policy_value address;

    if (!fields_is_present(fields, field))
        return matches_not_present(fields, field);
    if (is_wide)
        address = fields->wide[compiled->wides[op->low].slot] & compiled->wides[op->low].mask;
    else
        address = fields->narrow[field] & op->mask;
    return matches_found_if((compiled->learned &&
                             learned_find(compiled->learned, compiled->learning[op->index].identity,
                                          address, now_ns)) != op->negated);
}

/// Returns the key of a match or map; empty for other statements.
static struct policy_key key_of(const struct compiled *compiled, const struct compile_op *op) {
    switch ((enum compile_kind)op->kind) {
    case COMPILE_NARROW:
        return (struct policy_key){1, {(enum policy_field)op->field}};
    case COMPILE_WIDE:
        return (struct policy_key){1, {compiled->wides[op->index].field}};
    case COMPILE_SET:
    case COMPILE_LEARNED:
    case COMPILE_MARK_MAP:
    case COMPILE_VMAP:
        if (op->code == COMPILE_SHAPE_KEY)
            return compiled->keys[op->low];
        if (op->code == COMPILE_SHAPE_WIDE)
            return (struct policy_key){1, {compiled->wides[op->low].field}};
        return (struct policy_key){1, {(enum policy_field)op->field}};
    default:
        return (struct policy_key){0};
    }
}

uint64_t matches_looks_at(const struct compiled *compiled, const struct compile_op *op) {
    const struct policy_key key = key_of(compiled, op);
    uint64_t bits = 0;

    for (uint32_t i = 0; i < key.count; i++)
        bits |= FIELDS_BIT(key.fields[i]);
    return bits;
}

void matches_note_values(const struct compiled *compiled, const struct fields *fields,
                         const struct compile_op *op, struct decide_step *step) {
    const struct policy_key key = key_of(compiled, op);

    for (uint32_t i = 0; i < key.count; i++) {
        const enum policy_field field = key.fields[i];

        if (!fields_is_present(fields, field)) {
            if (step->why != DECIDE_DIFFERS &&
                matches_why_not(matches_not_present(fields, field)) != step->why)
                continue;
            step->missing = field;
            step->values_count = 0;
            return;
        }
        step->values[step->values_count++] = fields_value(fields, field);
    }
}
