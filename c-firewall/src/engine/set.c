// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hostnames.h"
#include "engine/marks.h"

static uint32_t bits(bool wide) { return wide ? 128 : 32; }

static bool is_left_out(const struct policy_range *element) { return element->low > element->high; }

static bool is_exact(const struct policy_range *element, uint32_t fields) {
    for (uint32_t i = 0; i < fields; i++)
        if (element[i].low != element[i].high)
            return false;
    return true;
}

/// Returns true if the engine's values of a type are wide: longer than 32 bits.
static bool is_wide(enum policy_type type) {
    return type == POLICY_IPV6_ADDR || type == POLICY_IFNAME || type == POLICY_HTTP_METHOD;
}

/// Creates the lookup of a key with one field.
/// - is_map: true if it matters which element is found.
static int make_single(struct set *set, enum policy_type type, const struct policy_range *ranges,
                       uint32_t count, bool is_map) {
    struct lookup_range *all = malloc((count + 1ULL) * sizeof *all);
    const bool is_host = type == POLICY_HOSTNAME;
    uint32_t kept = 0;
    int result = 0;

    if (!all)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (!is_left_out(&ranges[i]))
            all[kept++] =
                (struct lookup_range){ranges[i].low, ranges[i].high, is_host && !is_map ? 0 : i};
    if (is_host)
        result = hostnames_part(&all, &kept);
    if (result == 0)
        result = lookup_make(&set->single, bits(is_wide(type)), all, kept);
    free(all);
    return result;
}

/// Elements of a set whose host names may be nested, to be sorted by their width.
struct nested {
    uint32_t fields;
    const enum policy_type *types;
    const struct policy_range *ranges;
};

/// Returns the width of an element: the number of the policy's names below the element's host
/// names.
static policy_value width(const struct nested *nested, uint32_t number) {
    const struct policy_range *element = &nested->ranges[(size_t)number * nested->fields];
    policy_value sum = 0;

    for (uint32_t i = 0; i < nested->fields; i++)
        if (nested->types[i] == POLICY_HOSTNAME)
            sum += element[i].high - element[i].low;
    return sum;
}

static int compare_widths(const void *left, const void *right, void *context) {
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const policy_value of_a = width(context, a), of_b = width(context, b);

    if (of_a != of_b)
        return of_a < of_b ? -1 : 1;
    return (a > b) - (a < b);
}

/// Sorts elements with ranges by the width of their host names, the most specific first.
static void sort_nested(struct set *set, const enum policy_type *types,
                        const struct policy_range *ranges) {
    struct nested nested = {set->fields, types, ranges};

    if (set->ranged_count > 0)
        qsort_r(set->ranged, set->ranged_count, sizeof *set->ranged, compare_widths, &nested);
}

/// Divides the elements into those with exact values, which become rows of words, and those with
/// ranges.
static int make_exact(struct set *set, const bool *wide, const struct policy_range *ranges,
                      uint32_t count) {
    const uint32_t fields = set->fields;
    uint32_t words = 0, exact = 0;
    uint64_t *rows, *row;

    for (uint32_t i = 0; i < fields; i++)
        words += wide[i] ? 2 : 1;
    rows = malloc((count + 1ULL) * (words + 1) * sizeof *rows);
    set->ranged = malloc((count + 1ULL) * sizeof *set->ranged);
    if (!rows || !set->ranged) {
        free(rows);
        return -ENOMEM;
    }
    row = rows;
    for (uint32_t i = 0; i < count; i++) {
        const struct policy_range *element = &ranges[(size_t)i * fields];

        if (is_left_out(element))
            continue;
        if (!is_exact(element, fields)) {
            set->ranged[set->ranged_count++] = i;
            continue;
        }
        for (uint32_t field = 0; field < fields; field++) {
            if (wide[field])
                *row++ = (uint64_t)(element[field].low >> 64);
            *row++ = (uint64_t)element[field].low;
        }
        *row++ = i;
        exact++;
    }
    return lookup_hash_make(&set->exact, words, rows, exact);
}

/// Creates the search for the elements with ranges (the candidates) by one field of the key.
/// Returns 0 or -ENOMEM.
/// - by: index of the field in the key.
/// - wide: true if values of the field are longer than 32 bits.
/// - left_out: out: true for the elements that this search does not find, and that are therefore
///   compared one by one.
static int make_by(const struct set *set, uint32_t by, bool wide, struct candidates *candidates,
                   bool *left_out) {
    struct lookup_range *all = malloc((set->ranged_count + 1ULL) * sizeof *all);
    int result;

    if (!all)
        return -ENOMEM;
    for (uint32_t i = 0; i < set->ranged_count; i++) {
        const struct policy_range *range = &set->ranges[(size_t)i * set->fields + by];

        all[i] = (struct lookup_range){range->low, range->high, i};
    }
    result = candidates_make(candidates, bits(wide), all, set->ranged_count, set->ranged_count,
                             left_out);
    free(all);
    return result;
}

/// Returns the expected number of elements that a search compares with a key.
/// - left_out: true for the elements that are not among the candidates.
static uint64_t cost(const struct candidates *candidates, uint32_t count, const bool *left_out) {
    uint64_t always = 0;

    for (uint32_t i = 0; i < count; i++)
        always += left_out[i];
    return always + candidates_cost(candidates);
}

/// Chooses the field whose candidates leave the fewest elements to compare; of equal fields the
/// first.
static int make_candidates(struct set *set, const bool *wide) {
    const uint32_t count = set->ranged_count;
    bool *left_out = malloc(count + 1ULL), *best_out = calloc(count + 1ULL, 1);
    uint64_t best = UINT64_MAX;
    int result = left_out && best_out ? 0 : -ENOMEM;

    for (uint32_t by = 0; result == 0 && by < set->fields; by++) {
        struct candidates made;

        result = make_by(set, by, wide[by], &made, left_out);
        if (result < 0)
            break;
        if (cost(&made, count, left_out) >= best) {
            candidates_free(&made);
            continue;
        }
        best = cost(&made, count, left_out);
        memcpy(best_out, left_out, count);
        candidates_free(&set->candidates);
        set->candidates = made;
        set->by = by;
    }
    set->always = malloc((count + 1ULL) * sizeof *set->always);
    if (!set->always)
        result = -ENOMEM;
    for (uint32_t i = 0; result == 0 && i < count; i++)
        if (best_out[i])
            set->always[set->always_count++] = i;
    free(left_out);
    free(best_out);
    return result;
}

static int make_ranged(struct set *set, const bool *wide, const struct policy_range *ranges) {
    const size_t bytes = set->fields * sizeof *ranges;

    set->ranges = malloc((set->ranged_count + 1ULL) * bytes);
    if (!set->ranges)
        return -ENOMEM;
    for (uint32_t i = 0; i < set->ranged_count; i++)
        memcpy(&set->ranges[(size_t)i * set->fields], &ranges[(size_t)set->ranged[i] * set->fields],
               bytes);
    return make_candidates(set, wide);
}

static int compare_targets(const void *a, const void *b) {
    const struct set_target *one = a, *other = b;

    if (one->verdict != other->verdict)
        return one->verdict < other->verdict ? -1 : 1;
    return (one->chain > other->chain) - (one->chain < other->chain);
}

static bool has_possible(const struct set *set, uint32_t mark) {
    for (uint32_t i = 0; i < set->possible_count; i++)
        if (set->possible[i] == mark)
            return true;
    return false;
}

static int make_possible(struct set *set, uint32_t count) {
    set->possible = calloc(MARKS_VALUES_MAX + 1, sizeof *set->possible);
    if (!set->possible)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (set->possible_count <= MARKS_VALUES_MAX && !has_possible(set, set->marks[i]))
            set->possible[set->possible_count++] = set->marks[i];
    return 0;
}

static int make_leads(struct set *set, uint32_t count) {
    set->leads = malloc((count + 1ULL) * sizeof *set->leads);
    if (!set->leads)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        set->leads[i] = set->targets[i];
    qsort(set->leads, count, sizeof *set->leads, compare_targets);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || compare_targets(&set->leads[i], &set->leads[set->lead_count - 1]) != 0)
            set->leads[set->lead_count++] = set->leads[i];
    return 0;
}

static int make_map(struct set *set, const struct policy_elements *elements, uint32_t first_chain) {
    if (elements->marks) {
        set->marks = malloc((elements->count + 1ULL) * sizeof *set->marks);
        if (!set->marks)
            return -ENOMEM;
        memcpy(set->marks, elements->marks, elements->count * sizeof *set->marks);
        return make_possible(set, elements->count);
    }
    if (elements->targets) {
        set->targets = malloc((elements->count + 1ULL) * sizeof *set->targets);
        if (!set->targets)
            return -ENOMEM;
        for (uint32_t i = 0; i < elements->count; i++)
            set->targets[i] = (struct set_target){
                .verdict = elements->targets[i].verdict,
                .chain = first_chain + elements->targets[i].chain_index,
            };
        return make_leads(set, elements->count);
    }
    return 0;
}

int set_make(struct set *set, const enum policy_type *types, const struct policy_elements *elements,
             const struct policy_range *ranges, uint32_t count, uint32_t first_chain) {
    const bool is_map = elements->marks || elements->targets;
    bool wide[POLICY_KEY_FIELDS_MAX] = {0};
    int result;

    *set = (struct set){.fields = elements->fields};
    for (uint32_t i = 0; i < set->fields; i++) {
        wide[i] = is_wide(types[i]);
        set->nested |= types[i] == POLICY_HOSTNAME;
    }
    if (set->fields == 1)
        result = make_single(set, types[0], ranges, count, is_map);
    else
        result = make_exact(set, wide, ranges, count);
    if (result == 0 && set->nested)
        sort_nested(set, types, ranges);
    if (result == 0 && set->ranged_count > 0)
        result = make_ranged(set, wide, ranges);
    if (result == 0)
        result = make_map(set, elements, first_chain);
    if (result < 0)
        set_free(set);
    return result;
}

void set_free(struct set *set) {
    lookup_free(&set->single);
    lookup_hash_free(&set->exact);
    free(set->ranged);
    free(set->ranges);
    candidates_free(&set->candidates);
    free(set->always);
    free(set->marks);
    free(set->targets);
    free(set->possible);
    free(set->leads);
    *set = (struct set){0};
}

static bool element_holds(const struct set *set, uint32_t ranged, const policy_value *values) {
    const struct policy_range *element = &set->ranges[(size_t)ranged * set->fields];

    for (uint32_t i = 0; i < set->fields; i++)
        if (values[i] < element[i].low || values[i] > element[i].high)
            return false;
    return true;
}

/// Returns the index in ranged of a list's first element that contains the values, or LOOKUP_NONE.
static uint32_t find_ranged(const struct set *set, const uint32_t *list, uint32_t count,
                            const policy_value *values) {
    for (uint32_t i = 0; i < count; i++)
        if (element_holds(set, list[i], values))
            return list[i];
    return LOOKUP_NONE;
}

uint32_t set_find(const struct set *set, const struct fields *fields, const struct policy_key *key,
                  const uint64_t *words, uint32_t count) {
    uint32_t found = lookup_hash_find(&set->exact, words, count);
    const struct candidates *candidates = &set->candidates;
    policy_value values[POLICY_KEY_FIELDS_MAX] = {0};
    uint32_t list;

    if (found != LOOKUP_NONE || set->ranged_count == 0)
        return found;
    for (uint32_t i = 0; i < key->count; i++)
        values[i] = fields_value(fields, key->fields[i]);
    list = fields_wide_slot(key->fields[set->by]) < FIELDS_WIDE_COUNT
               ? lookup_find_wide(&candidates->lookup, values[set->by])
               : lookup_find(&candidates->lookup, (uint32_t)values[set->by]);
    if (list != LOOKUP_NONE)
        found = find_ranged(set, &candidates->ids[candidates->starts[list]],
                            candidates->starts[list + 1] - candidates->starts[list], values);
    if (found == LOOKUP_NONE || set->nested) {
        const uint32_t other = find_ranged(set, set->always, set->always_count, values);

        found = other < found ? other : found; // LOOKUP_NONE is the highest number
    }
    return found == LOOKUP_NONE ? found : set->ranged[found];
}
