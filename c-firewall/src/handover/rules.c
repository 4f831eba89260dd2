// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/rules.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/state.h"

#define NO_COMMENT UINT32_MAX

enum {
    RULE_BYTES = 3 * sizeof(uint32_t) + MIGRATION_KIND_COUNT, // minimum bytes of a serialized rule
    // Maximum number of rules that are written in one step of the transfer. A step takes some
    // milliseconds.
    AT_A_TIME = 2048,
};

static int append_length(struct handover_memory *memory, size_t length) {
    const uint32_t bytes = htole32((uint32_t)length);

    return handover_memory_append(memory, &bytes, sizeof bytes);
}

static int append_rule(struct handover_rules *rules, const struct loaded *loaded,
                       const struct migration_rule *rule) {
    struct handover_memory *const memory = &rules->memory;
    const size_t chain = strlen(rule->chain), text = strlen(rule->text);
    const size_t comment = rule->comment ? strlen(rule->comment) : 0;
    int result = append_length(memory, chain);

    if (result == 0)
        result = append_length(memory, rule->comment ? comment : NO_COMMENT);
    if (result == 0)
        result = append_length(memory, text);
    if (result == 0)
        result = handover_memory_append(memory, rule->count, sizeof rule->count);
    for (int i = 0; result == 0 && i < rule->count[MIGRATION_LIMITS]; i++)
        result = handover_memory_append_number(
            memory, (uint64_t)loaded->compiled->limits[rules->next_limit++].size);
    if (result == 0)
        result = handover_memory_append(memory, rule->chain, chain);
    if (result == 0)
        result = handover_memory_append(memory, rule->comment, comment);
    return result < 0 ? result : handover_memory_append(memory, rule->text, text);
}

int handover_rules_begin(struct handover_rules *rules, const struct loaded *loaded) {
    int result = handover_memory_make(&rules->memory);

    rules->at = (struct migration_place){0};
    rules->next_limit = 0;
    if (result < 0)
        return result;
    return append_length(&rules->memory, loaded->compiled ? loaded->compiled->rule_count : 0);
}

int handover_rules_write(struct handover_rules *rules, const struct loaded *loaded) {
    for (int i = 0; i < AT_A_TIME; i++) {
        struct migration_rule rule;
        int result = loaded->compiled ? migration_next_rule(loaded, &rules->at, &rule) : 0;

        if (result == 0)
            return handover_memory_seal(&rules->memory);
        if (result > 0)
            result = append_rule(rules, loaded, &rule);
        migration_rule_free(&rule);
        if (result < 0)
            return result;
    }
    return 1;
}

/// Bytes of serialized rules that are not parsed yet.
struct reading {
    const uint8_t *at;
    size_t left;
};

/// Removes bytes from the front of the unread bytes, and returns them; NULL if fewer are left.
static const uint8_t *consume(struct reading *reading, size_t bytes) {
    const uint8_t *taken = reading->at;

    if (bytes > reading->left)
        return NULL;
    reading->at += bytes;
    reading->left -= bytes;
    return taken;
}

static bool decode_length(struct reading *reading, uint32_t *length) {
    const uint8_t *bytes = consume(reading, sizeof *length);

    if (!bytes)
        return false;
    memcpy(length, bytes, sizeof *length);
    *length = le32toh(*length);
    return true;
}

/// Parses a text, which must not contain a NUL; the caller frees *text. Returns 0 or -errno.
static int decode_text(struct reading *reading, uint32_t length, char **text) {
    const uint8_t *bytes = consume(reading, length);

    if (!bytes || memchr(bytes, '\0', length))
        return -EPROTO;
    *text = strndup((const char *)bytes, length);
    return *text ? 0 : -ENOMEM;
}

/// Parses the sizes of a rule's limits. Returns 0 or -errno.
static int decode_limit_sizes(struct reading *reading, uint32_t count,
                              struct migration_side *side) {
    const uint32_t before = side->totals[MIGRATION_LIMITS];
    int64_t *sizes = realloc(side->limit_sizes, (before + count) * sizeof *sizes);

    if (!sizes)
        return -ENOMEM;
    side->limit_sizes = sizes;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *bytes = consume(reading, sizeof *sizes);
        uint64_t size;

        if (!bytes)
            return -EPROTO;
        memcpy(&size, bytes, sizeof size);
        size = le64toh(size);
        if (size < 1 || size > FLOW_LIMIT_SIZE_MAX)
            return -EPROTO;
        sizes[before + i] = (int64_t)size;
    }
    return 0;
}

static int parse_rule(struct reading *reading, struct migration_side *side) {
    struct migration_rule *const rule = &side->rules[side->rule_count++];
    uint32_t chain, comment, text, statements = 0;
    const uint8_t *count;
    int result = 0;

    if (!decode_length(reading, &chain) || !decode_length(reading, &comment) ||
        !decode_length(reading, &text))
        return -EPROTO;
    count = consume(reading, sizeof rule->count);
    for (int kind = 0; count && kind < MIGRATION_KIND_COUNT; kind++)
        statements += count[kind];
    if (!count || statements > PARSE_STATEMENTS_MAX)
        return -EPROTO;
    memcpy(rule->count, count, sizeof rule->count);
    if (rule->count[MIGRATION_LIMITS] > 0)
        result = decode_limit_sizes(reading, rule->count[MIGRATION_LIMITS], side);
    for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++)
        side->totals[kind] += rule->count[kind];
    if (result == 0)
        result = decode_text(reading, chain, &rule->chain);
    if (result == 0 && comment != NO_COMMENT)
        result = decode_text(reading, comment, &rule->comment);
    return result < 0 ? result : decode_text(reading, text, &rule->text);
}

int handover_rules_parse(const uint8_t *bytes, size_t length, struct migration_side *side) {
    struct reading reading = {bytes, length};
    uint32_t rules;
    int result = 0;

    *side = (struct migration_side){0};
    if (!decode_length(&reading, &rules) || rules > POLICY_RULES_MAX ||
        rules > reading.left / RULE_BYTES)
        return -EPROTO;
    side->rules = calloc(rules + 1U, sizeof *side->rules);
    if (!side->rules)
        return -ENOMEM;
    for (uint32_t i = 0; result == 0 && i < rules; i++)
        result = parse_rule(&reading, side);
    if (result == 0 && reading.left > 0)
        result = -EPROTO;
    if (result < 0)
        migration_side_free(side);
    return result;
}
