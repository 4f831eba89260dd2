// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/overlap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/print.h"

/// Result of the search for overlapping elements: none, a pair, or the search needs too many
/// comparisons.
enum finding { FOUND_NONE, FOUND_PAIR, FOUND_TOO_MANY };

/// State of a search for overlapping elements.
struct search {
    const struct policy_elements *elements;
    uint64_t budget;    // number of remaining comparisons
    uint32_t *reaching; // indexes of earlier elements that may overlap (sweep); room for all
    uint32_t a, b;      // for FOUND_PAIR: indexes of the elements
};

/// Returns the ranges of an element, one per field.
static const struct policy_range *element(const struct policy_elements *elements, uint32_t index) {
    return &elements->ranges[(size_t)index * elements->fields];
}

/// Orders two elements by their fields, then by their place in the text.
static int compare(const void *left, const void *right, void *context) {
    const struct policy_elements *elements = context;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct policy_range *x = element(elements, a), *y = element(elements, b);

    for (uint32_t i = 0; i < elements->fields; i++) {
        if (x[i].low != y[i].low)
            return x[i].low < y[i].low ? -1 : 1;
        if (x[i].high != y[i].high)
            return x[i].high < y[i].high ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

static bool same_range(const struct policy_range *a, const struct policy_range *b) {
    return a->low == b->low && a->high == b->high;
}

/// Returns true if two elements have the same fields.
static bool same_fields(const struct policy_elements *elements, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < elements->fields; i++)
        if (!same_range(&element(elements, a)[i], &element(elements, b)[i]))
            return false;
    return true;
}

/// Returns true if two elements of a map have the same value. Always returns true for elements of a
/// set.
static bool same_value(const struct policy_elements *elements, uint32_t a, uint32_t b) {
    if (elements->marks)
        return elements->marks[a] == elements->marks[b];
    if (elements->targets)
        return elements->targets[a].verdict == elements->targets[b].verdict &&
               strcmp(elements->targets[a].chain, elements->targets[b].chain) == 0;
    return true;
}

/// Returns true if two elements overlap in field `from` and in all fields after it.
static bool overlaps(const struct policy_elements *elements, uint32_t from, uint32_t a,
                     uint32_t b) {
    const struct policy_range *x = element(elements, a), *y = element(elements, b);

    for (uint32_t i = from; i < elements->fields; i++)
        if (x[i].low > y[i].high || y[i].low > x[i].high)
            return false;
    return true;
}

/// Searches for two elements that overlap. The elements are equal in all earlier fields and sorted
/// by this field. Compares each element with the earlier elements whose range in this field
/// overlaps its own. Gives up if more comparisons are needed than the budget allows.
static enum finding sweep(struct search *search, const uint32_t *run, uint32_t count,
                          uint32_t field) {
    uint32_t reaching = 0;

    for (uint32_t i = 0; i < count; i++) {
        const policy_value low = element(search->elements, run[i])[field].low;
        uint32_t kept = 0;

        if (reaching > search->budget)
            return FOUND_TOO_MANY;
        search->budget -= reaching;
        for (uint32_t j = 0; j < reaching; j++)
            if (element(search->elements, search->reaching[j])[field].high >= low)
                search->reaching[kept++] = search->reaching[j];
        reaching = kept;
        for (uint32_t j = 0; j < reaching; j++) {
            if (overlaps(search->elements, field + 1, search->reaching[j], run[i])) {
                search->a = search->reaching[j];
                search->b = run[i];
                return FOUND_PAIR;
            }
        }
        search->reaching[reaching++] = run[i];
    }
    return FOUND_NONE;
}

/// Searches for two elements that overlap. The elements are equal in all earlier fields and sorted
/// by this field. Calls itself for the next field.
// NOLINTNEXTLINE(misc-no-recursion)
static enum finding find(struct search *search, const uint32_t *sorted, uint32_t count,
                         uint32_t field) {
    uint32_t first = 0;

    while (first < count) {
        const struct policy_range *start = &element(search->elements, sorted[first])[field];
        policy_value high = start->high;
        enum finding found = FOUND_NONE;
        uint32_t end = first + 1;
        bool differ = false;

        for (; end < count; end++) {
            const struct policy_range *range = &element(search->elements, sorted[end])[field];

            if (range->low > high)
                break;
            differ |= !same_range(range, start);
            if (range->high > high)
                high = range->high;
        }
        if (end - first > 1)
            found = differ ? sweep(search, sorted + first, end - first, field)
                           : find(search, sorted + first, end - first, field + 1);
        if (found != FOUND_NONE)
            return found;
        first = end;
    }
    return FOUND_NONE;
}

/// Sets the failure for two conflicting elements, at the place of the element that is later in the
/// text. Returns -EINVAL or -ENOMEM.
/// - cause: middle of the error text, between the later element and the place of the earlier
///   element.
static int fail_pair(struct parser *parser, const struct parse_shape *shape,
                     const struct policy_elements *elements, uint32_t a, uint32_t b,
                     const char *cause) {
    const uint32_t earlier = a < b ? a : b, later = a < b ? b : a;
    char quoted[TOKEN_QUOTED_BYTES], at[LOG_TEXT_BYTES];
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return parse_no_memory(parser);
    for (uint32_t i = 0; i < shape->count; i++) {
        if (i > 0)
            fputs(" . ", out);
        print_range(out, parser->policy.hostnames, shape->types[i], &element(elements, later)[i]);
    }
    if (fclose(out) != 0) {
        free(text);
        return parse_no_memory(parser);
    }
    token_quote(text, length, quoted);
    free(text);
    lexer_place_name(&parser->lexer, elements->places[earlier], at, sizeof at);
    return lexer_fail(&parser->lexer, elements->places[later], "%s: %s %s", quoted, cause, at);
}

/// Removes the elements for which `removed` is true.
static void leave_out(struct policy_elements *elements, const bool *removed) {
    uint32_t kept = 0;

    for (uint32_t i = 0; i < elements->count; i++) {
        if (removed[i])
            continue;
        memmove(&elements->ranges[(size_t)kept * elements->fields], element(elements, i),
                elements->fields * sizeof *elements->ranges);
        if (elements->targets)
            elements->targets[kept] = elements->targets[i];
        if (elements->marks)
            elements->marks[kept] = elements->marks[i];
        elements->places[kept++] = elements->places[i];
    }
    elements->count = kept;
}

/// Merges equal elements and searches overlaps, as overlap_check describes.
/// - sorted, removed, reaching: arrays of the caller with an item per element; removed is zeroed.
static int check_with(struct parser *parser, const struct parse_shape *shape,
                      struct policy_elements *elements, bool merges, uint32_t *sorted,
                      bool *removed, uint32_t *reaching) {
    struct search search = {
        .elements = elements, .budget = OVERLAP_COMPARISONS_MAX, .reaching = reaching};
    const bool is_set = !elements->targets && !elements->marks;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < elements->count; i++)
        sorted[i] = i;
    qsort_r(sorted, elements->count, sizeof *sorted, compare, elements);
    for (uint32_t i = 0; i < elements->count; i++) {
        const uint32_t next = sorted[i];

        if (kept == 0 || !same_fields(elements, sorted[kept - 1], next))
            sorted[kept++] = next;
        else if (same_value(elements, sorted[kept - 1], next))
            removed[next] = true;
        else
            return fail_pair(parser, shape, elements, sorted[kept - 1], next,
                             "has another value at");
    }
    switch (merges && is_set ? FOUND_NONE : find(&search, sorted, kept, 0)) {
    case FOUND_PAIR:
        return fail_pair(parser, shape, elements, search.a, search.b, "overlaps an element at");
    case FOUND_TOO_MANY:
        return lexer_fail(&parser->lexer, elements->places[0],
                          "too many of these elements overlap in their first fields to compare "
                          "them all: let the field that distinguishes them be the first");
    default:
        break;
    }
    if (kept < elements->count)
        leave_out(elements, removed);
    return 0;
}

int overlap_check(struct parser *parser, const struct parse_shape *shape,
                  struct policy_elements *elements, bool merges) {
    const size_t count = elements->count;
    uint32_t *sorted;
    bool *removed;
    int status;

    if (count < 2)
        return 0;
    sorted = malloc(2 * count * sizeof *sorted);
    removed = calloc(count, sizeof *removed);
    if (sorted && removed)
        status = check_with(parser, shape, elements, merges, sorted, removed, sorted + count);
    else
        status = parse_no_memory(parser);
    free(sorted);
    free(removed);
    return status;
}
