// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/lookup_hash.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    EMPTY_BYTE = 0xff, // every byte of LOOKUP_NONE, and so of an empty slot
};

/// Returns the base 2 logarithm of the number of slots. That number is the smallest power of 2 that
/// is at least twice the count, and at least 2.
static uint32_t slots_log2(uint32_t count) {
    uint32_t log2 = 1;

    while ((1ULL << log2) < 2ULL * count)
        log2++;
    return log2;
}

/// Creates a table with empty slots and a random key. Returns 0, or -ENOMEM with *table zeroed.
static int make_slots(struct lookup_table *table, uint32_t log2) {
    const size_t bytes = sizeof *table->slots << log2;

    *table = (struct lookup_table){.key = siphash_draw(), .mask = (uint32_t)((1ULL << log2) - 1)};
    table->slots = malloc(bytes);
    if (!table->slots) {
        lookup_table_free(table);
        return -ENOMEM;
    }
    memset(table->slots, EMPTY_BYTE, bytes);
    return 0;
}

/// Returns true if no run of used slots is longer than LOOKUP_PROBES_MAX. The first slot follows
/// the last.
static bool is_bounded(const struct lookup_table *table) {
    uint32_t used = 0;

    // The loop ends, because half of the slots are empty.
    for (uint64_t i = 0; i <= table->mask || used > 0; i++) {
        used = table->slots[i & table->mask].value == LOOKUP_NONE ? 0 : used + 1;
        if (used > LOOKUP_PROBES_MAX)
            return false;
    }
    return true;
}

/// Returns the slot with the value, or the empty slot where it would be.
static struct lookup_slot *table_slot(const struct lookup_table *table, uint32_t value) {
    uint32_t slot = (uint32_t)siphash_narrow(&table->key, value) & table->mask;

    for (;; slot = (slot + 1) & table->mask) {
        struct lookup_slot *row = &table->slots[slot];

        if (row->value == LOOKUP_NONE || row->tag == value)
            return row;
    }
}

int lookup_table_make(struct lookup_table *table, const struct lookup_slot *entries,
                      uint32_t count) {
    for (uint32_t log2 = slots_log2(count);; log2++) {
        const int result = make_slots(table, log2);

        if (result < 0)
            return result;
        for (uint32_t i = 0; i < count; i++)
            *table_slot(table, entries[i].tag) = entries[i];
        if (is_bounded(table))
            return 0;
        lookup_table_free(table);
    }
}

void lookup_table_free(struct lookup_table *table) {
    free(table->slots);
    *table = (struct lookup_table){0};
}

uint32_t lookup_table_find(const struct lookup_table *table, uint32_t value) {
    return table_slot(table, value)->value;
}

/// Returns the slot with the key, or the empty slot where it would be.
static struct lookup_slot *hash_slot(const struct lookup_hash *hash, const uint64_t *key,
                                     uint32_t words, uint64_t hashed) {
    uint32_t slot = (uint32_t)hashed & hash->table.mask;

    for (;; slot = (slot + 1) & hash->table.mask) {
        struct lookup_slot *row = &hash->table.slots[slot];

        if (row->value == LOOKUP_NONE)
            return row;
        if (row->tag == (uint32_t)(hashed >> 32) &&
            memcmp(&hash->rows[(size_t)row->value * (words + 1)], key, words * sizeof *key) == 0)
            return row;
    }
}

static void fill(struct lookup_hash *hash, uint32_t words) {
    for (uint32_t i = 0; i < hash->count; i++) {
        const uint64_t *key = &hash->rows[(size_t)i * (words + 1)];
        const uint64_t hashed = siphash_words(&hash->table.key, key, words);
        struct lookup_slot *slot = hash_slot(hash, key, words, hashed);

        if (slot->value == LOOKUP_NONE)
            *slot = (struct lookup_slot){.tag = (uint32_t)(hashed >> 32), .value = i};
    }
}

int lookup_hash_make(struct lookup_hash *hash, uint32_t words, uint64_t *rows, uint32_t count) {
    *hash = (struct lookup_hash){.count = count, .rows = rows};
    for (uint32_t log2 = slots_log2(count);; log2++) {
        const int result = make_slots(&hash->table, log2);

        if (result < 0) {
            lookup_hash_free(hash);
            return result;
        }
        fill(hash, words);
        if (is_bounded(&hash->table))
            return 0;
        lookup_table_free(&hash->table);
    }
}

void lookup_hash_free(struct lookup_hash *hash) {
    lookup_table_free(&hash->table);
    free(hash->rows);
    *hash = (struct lookup_hash){0};
}

uint32_t lookup_hash_find(const struct lookup_hash *hash, const uint64_t *key, uint32_t words) {
    const struct lookup_slot *slot;

    if (hash->count == 0)
        return LOOKUP_NONE;
    slot = hash_slot(hash, key, words, siphash_words(&hash->table.key, key, words));
    if (slot->value == LOOKUP_NONE)
        return LOOKUP_NONE;
    return (uint32_t)hash->rows[(size_t)slot->value * (words + 1) + words];
}
