// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/lookup.h"

#include <errno.h>
#include <stdlib.h>

/// Orders ranges by their start, then by result.
static int compare_ranges(const void *left, const void *right) {
    const struct lookup_range *a = left, *b = right;

    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

uint32_t lookup_part(struct lookup_range *ranges, uint32_t count) {
    uint32_t kept = 0;

    if (count > 0)
        qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (uint32_t i = 0; i < count; i++) {
        struct lookup_range range = ranges[i];

        if (kept > 0 && range.low <= ranges[kept - 1].high) {
            if (range.high <= ranges[kept - 1].high)
                continue;
            range.low = ranges[kept - 1].high + 1;
        }
        ranges[kept++] = range;
    }
    return kept;
}

static bool all_exact(const struct lookup_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].low != ranges[i].high)
            return false;
    return true;
}

static int make_exact(struct lookup *lookup, const struct lookup_range *ranges, uint32_t count) {
    struct lookup_slot *entries = malloc(count * sizeof *entries);
    int result;

    lookup->kind = LOOKUP_EXACT;
    if (!entries)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct lookup_slot){.tag = (uint32_t)ranges[i].low, .value = ranges[i].value};
    result = lookup_table_make(&lookup->table, entries, count);
    free(entries);
    return result;
}

/// Creates about as many buckets (groups of adjacent intervals) as there are ranges, but at most
/// LOOKUP_BUCKETS_MAX.
static int make_buckets(struct lookup *lookup, const struct lookup_range *ranges, uint32_t count) {
    const policy_value span = ranges[count - 1].low - ranges[0].low;
    uint32_t at = 0, most = 1;

    while (most < count && most < LOOKUP_BUCKETS_MAX)
        most *= 2;
    lookup->base = ranges[0].low;
    while ((span >> lookup->bucket_shift) >= most)
        lookup->bucket_shift++;
    lookup->bucket_count = (uint32_t)(span >> lookup->bucket_shift) + 1;
    lookup->buckets = malloc((lookup->bucket_count + 1ULL) * sizeof *lookup->buckets);
    if (!lookup->buckets)
        return -ENOMEM;
    for (uint32_t bucket = 0; bucket <= lookup->bucket_count; bucket++) {
        while (at < count && (ranges[at].low - lookup->base) >> lookup->bucket_shift < bucket)
            at++;
        lookup->buckets[bucket] = at;
    }
    return 0;
}

static int make_intervals(struct lookup *lookup, const struct lookup_range *ranges,
                          uint32_t count) {
    lookup->kind = LOOKUP_INTERVALS;
    lookup->count = count;
    lookup->intervals = malloc(count * sizeof *lookup->intervals);
    if (!lookup->intervals)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        lookup->intervals[i] = (struct lookup_interval){
            .low = (uint32_t)ranges[i].low,
            .high = (uint32_t)ranges[i].high,
            .value = ranges[i].value,
        };
    return make_buckets(lookup, ranges, count);
}

static int make_wide_intervals(struct lookup *lookup, const struct lookup_range *ranges,
                               uint32_t count) {
    lookup->kind = LOOKUP_WIDE_INTERVALS;
    lookup->count = count;
    lookup->wide_intervals = malloc(count * sizeof *lookup->wide_intervals);
    if (!lookup->wide_intervals)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        lookup->wide_intervals[i] = (struct lookup_wide_interval){
            .low = ranges[i].low,
            .high = ranges[i].high,
            .value = ranges[i].value,
        };
    return make_buckets(lookup, ranges, count);
}

static int make_wide_exact(struct lookup *lookup, const struct lookup_range *ranges,
                           uint32_t count) {
    uint64_t *rows = malloc(count * 3ULL * sizeof *rows);

    lookup->kind = LOOKUP_WIDE_EXACT;
    if (!rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        rows[3ULL * i] = (uint64_t)(ranges[i].low >> 64);
        rows[3ULL * i + 1] = (uint64_t)ranges[i].low;
        rows[3ULL * i + 2] = ranges[i].value;
    }
    return lookup_hash_make(&lookup->hash, 2, rows, count);
}

int lookup_make(struct lookup *lookup, uint32_t bits, struct lookup_range *ranges, uint32_t count) {
    const bool narrow = bits <= LOOKUP_NARROW_BITS;
    int result;

    *lookup = (struct lookup){.kind = LOOKUP_EMPTY};
    count = lookup_part(ranges, count);
    if (count == 0)
        return 0;
    if (all_exact(ranges, count))
        result = (narrow ? make_exact : make_wide_exact)(lookup, ranges, count);
    else
        result = (narrow ? make_intervals : make_wide_intervals)(lookup, ranges, count);
    if (result < 0)
        lookup_free(lookup);
    return result;
}

void lookup_free(struct lookup *lookup) {
    lookup_table_free(&lookup->table);
    lookup_hash_free(&lookup->hash);
    free(lookup->intervals);
    free(lookup->wide_intervals);
    free(lookup->buckets);
    *lookup = (struct lookup){.kind = LOOKUP_EMPTY};
}

/// Returns the number of the bucket of a value. The value must not be less than lookup->base.
static uint32_t bucket_of(const struct lookup *lookup, policy_value value) {
    const policy_value bucket = (value - lookup->base) >> lookup->bucket_shift;

    return bucket < lookup->bucket_count ? (uint32_t)bucket : lookup->bucket_count - 1;
}

static uint32_t find_interval(const struct lookup *lookup, uint32_t value) {
    const uint64_t offset = (uint64_t)value - (uint32_t)lookup->base;
    uint64_t bucket;
    uint32_t from, to;

    if (value < (uint32_t)lookup->base)
        return LOOKUP_NONE;
    bucket = offset >> lookup->bucket_shift;
    if (bucket >= lookup->bucket_count)
        bucket = lookup->bucket_count - 1;
    // Finds the first interval that begins after the value; only the one before it can contain the
    // value.
    from = lookup->buckets[bucket];
    to = lookup->buckets[bucket + 1];
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;

        if (lookup->intervals[middle].low <= value)
            from = middle + 1;
        else
            to = middle;
    }
    // from is not 0, because the first interval begins at the base.
    return value <= lookup->intervals[from - 1].high ? lookup->intervals[from - 1].value
                                                     : LOOKUP_NONE;
}

uint32_t lookup_find(const struct lookup *lookup, uint32_t value) {
    switch (lookup->kind) {
    case LOOKUP_EXACT:
        return lookup_table_find(&lookup->table, value);
    case LOOKUP_INTERVALS:
        return find_interval(lookup, value);
    default:
        return LOOKUP_NONE;
    }
}

static uint32_t find_wide_interval(const struct lookup *lookup, policy_value value) {
    uint32_t bucket, from, to;

    if (value < lookup->base)
        return LOOKUP_NONE;
    bucket = bucket_of(lookup, value);
    from = lookup->buckets[bucket];
    to = lookup->buckets[bucket + 1];
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;

        if (lookup->wide_intervals[middle].low <= value)
            from = middle + 1;
        else
            to = middle;
    }
    return value <= lookup->wide_intervals[from - 1].high ? lookup->wide_intervals[from - 1].value
                                                          : LOOKUP_NONE;
}

uint32_t lookup_find_wide(const struct lookup *lookup, policy_value value) {
    switch (lookup->kind) {
    case LOOKUP_WIDE_EXACT:
        return lookup_hash_find(&lookup->hash,
                                (uint64_t[]){(uint64_t)(value >> 64), (uint64_t)value}, 2);
    case LOOKUP_WIDE_INTERVALS:
        return find_wide_interval(lookup, value);
    default:
        return LOOKUP_NONE;
    }
}
