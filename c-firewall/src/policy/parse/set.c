// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/set.h"

#include <errno.h>
#include <string.h>

#include "policy/parse/listed.h"
#include "policy/parse/matches.h"
#include "policy/parse/refuse.h"
#include "policy/value.h"

#define TYPE_FIRST "type or typeof"
// Error text for elements, flags or auto-merge of a set that learns.
#define LEARNS "a set that learns has no elements, flags or auto-merge"

/// Name and items of the block `{ … }` of a set or map, as parsed so far.
struct block {
    bool is_map;
    struct token name;
    bool commented, typed, has_flags, has_elements;
    bool ranged;               // true if an element has a range, a prefix or a `*`
    struct policy_place range; // place of the first element with a range, a prefix or a `*`
    uint32_t fields;           // number of fields in set.types
    struct policy_set set;
};

/// Returns the required properties of the elements of a set with this number of fields.
static struct parse_shape shape_of(const struct policy_set *set, uint32_t fields) {
    struct parse_shape shape = {.count = fields, .maps_to = set->maps_to};

    if (set->is_typeof)
        return parse_elements_shape(&set->key, set->maps_to, false);
    for (uint32_t i = 0; i < fields; i++) {
        shape.types[i] = set->types[i];
        shape.bits[i] = value_bits(set->types[i]);
    }
    return shape;
}

struct parse_shape parse_set_shape(const struct policy_set *set) {
    return shape_of(set, set->elements.fields);
}

/// Parses a set's types, after the word `type`.
static int parse_types(struct parser *parser, struct block *block) {
    do {
        const struct token token = lexer_consume(&parser->lexer);
        enum policy_type type;

        if (!value_find_type(&token, &type))
            return parse_refuse_unexpected(&parser->lexer, PARSE_AT_SET_TYPE, &token,
                                           "a type such as ipv4_addr or inet_service");
        if (block->fields == POLICY_KEY_FIELDS_MAX)
            return lexer_wrong(&parser->lexer, &token, "more than %d fields in a key",
                               POLICY_KEY_FIELDS_MAX);
        block->set.types[block->fields++] = type;
    } while (lexer_consume_sign(&parser->lexer, SIGN_DOT));
    return 0;
}

/// Parses a set's fields, after the word `typeof`.
static int parse_fields(struct parser *parser, struct block *block) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    struct policy_key *key = &block->set.key;
    int status;

    parser->tested = parse_tested(POLICY_INET);
    parser->tested.is_typeof = true;
    status = parse_matches_key(parser, key);
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < key->count; i++) {
        const enum policy_type type = policy_field_facts(key->fields[i])->type;

        if (type == POLICY_BOOLEAN)
            return lexer_wrong(&parser->lexer, &first,
                               "a set does not hold what exists or is missing");
        if (type == POLICY_ALPN)
            return lexer_wrong(&parser->lexer, &first, PARSE_ALPN_ALONE);
        block->set.types[block->fields++] = type;
    }
    block->set.is_typeof = true;
    return 0;
}

/// Parses `: verdict` or `: mark` of a map. After typeof, the latter may be `: meta mark`.
static int parse_maps_to(struct parser *parser, struct policy_set *set) {
    const int status = parse_sign(parser, SIGN_COLON, "\":\" and verdict or mark");

    if (status != 0)
        return status;
    if (lexer_consume_word(&parser->lexer, "verdict")) {
        set->maps_to = POLICY_VERDICT_MAP;
        return 0;
    }
    if (set->is_typeof)
        lexer_consume_word(&parser->lexer, "meta");
    set->maps_to = POLICY_MARK_MAP;
    return parse_word(parser, "mark", "verdict or mark");
}

/// Parses the part after `type` or `typeof` in a set's block.
static int parse_type(struct parser *parser, struct block *block, const struct token *word) {
    uint32_t bytes = 0;
    int status;

    if (block->typed)
        return lexer_wrong(&parser->lexer, word, "given twice");
    block->typed = true;
    status = token_is(word, "typeof") ? parse_fields(parser, block) : parse_types(parser, block);
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < block->fields; i++)
        bytes += (value_bits(block->set.types[i]) + 31U) / 32 * 4;
    if (block->fields > 1 && bytes > PARSE_KEY_BYTES_MAX)
        return lexer_wrong(&parser->lexer, word, "a key of more than %d bytes",
                           PARSE_KEY_BYTES_MAX);
    if (block->is_map)
        status = parse_maps_to(parser, &block->set);
    return status != 0 ? status : lexer_consume_end(&parser->lexer);
}

/// Parses the part after `flags` in a set's block.
static int parse_flags(struct parser *parser, struct block *block, const struct token *word) {
    if (block->has_flags)
        return lexer_wrong(&parser->lexer, word, "given twice");
    block->has_flags = true;
    do {
        const struct token token = lexer_consume(&parser->lexer);

        if (token_is(&token, "interval"))
            block->set.interval = true;
        else if (token_is(&token, "constant"))
            block->set.constant = true;
        else
            return parse_refuse_unexpected(&parser->lexer, PARSE_AT_SET_FLAG, &token,
                                           "interval or constant");
    } while (lexer_consume_sign(&parser->lexer, SIGN_COMMA));
    return lexer_consume_end(&parser->lexer);
}

/// Parses the part after `auto-merge` in a set's block.
static int parse_auto_merge(struct parser *parser, struct block *block, const struct token *word) {
    if (block->set.auto_merge)
        return lexer_wrong(&parser->lexer, word, "given twice");
    if (block->is_map || block->fields > 1)
        return lexer_wrong(&parser->lexer, word, "for sets of one field only");
    block->set.auto_merge = true;
    return lexer_consume_end(&parser->lexer);
}

/// Parses the part after `elements` in a set's block.
static int parse_elements(struct parser *parser, struct block *block, const struct token *word) {
    const struct parse_shape shape = shape_of(&block->set, block->fields);
    int status;

    if (block->has_elements)
        return lexer_wrong(&parser->lexer, word, "given twice");
    block->has_elements = true;
    status = parse_sign(parser, SIGN_ASSIGN, "\"=\"");
    if (status == 0)
        status = parse_elements_read(parser, &shape, &block->set.elements, &block->ranged,
                                     &block->range);
    if (status != 0 || lexer_peek(&parser->lexer, 0)->sign == SIGN_BRACE_CLOSE)
        return status; // like nft: `elements = { … } }` needs no END
    return lexer_consume_end(&parser->lexer);
}

/// Parses the part after `file` in a set's block.
static int parse_file(struct parser *parser, struct block *block, const struct token *word) {
    if (block->is_map || block->fields != 1 || block->set.types[0] != POLICY_HOSTNAME)
        return lexer_wrong(&parser->lexer, word, "for sets of type hostname only");
    return parse_listed_read(parser, &block->set.listed);
}

/// Parses the part after `learn` in a set's block.
static int parse_learned(struct parser *parser, struct block *block, const struct token *word) {
    const struct parse_shape shape = {
        .count = 1,
        .types = {POLICY_HOSTNAME},
        .bits = {value_bits(POLICY_HOSTNAME)},
        .maps_to = POLICY_SET,
    };
    const enum policy_type type = block->set.types[0];
    struct policy_place place;
    bool ranged;
    int status;

    if (policy_set_learns(&block->set))
        return lexer_wrong(&parser->lexer, word, "given twice");
    if (block->is_map || block->fields != 1 ||
        (type != POLICY_IPV4_ADDR && type != POLICY_IPV6_ADDR))
        return lexer_wrong(&parser->lexer, word, "for sets of type ipv4_addr or ipv6_addr only");
    status = parse_word(parser, "dns", "dns");
    if (status != 0)
        return status;
    if (lexer_peek(&parser->lexer, 0)->sign == SIGN_BRACE_OPEN)
        status = parse_elements_read(parser, &shape, &block->set.learned, &ranged, &place);
    else
        status = parse_elements_single(parser, &shape, &block->set.learned);
    return status != 0 ? status : lexer_consume_end(&parser->lexer);
}

/// Parses an item of a set's block, after the item's first word.
static int parse_item(struct parser *parser, struct block *block, const struct token *word) {
    const bool is_flags = token_is(word, "flags"), is_merge = token_is(word, "auto-merge");
    const bool is_file = token_is(word, "file"), is_learn = token_is(word, "learn");

    if (token_is(word, "comment")) {
        int status;

        if (block->commented)
            return lexer_wrong(&parser->lexer, word, "given twice");
        block->commented = true;
        status = parse_string(parser, block->set.comment);
        return status != 0 ? status : lexer_consume_end(&parser->lexer);
    }
    if (token_is(word, "type") || token_is(word, "typeof"))
        return parse_type(parser, block, word);
    if (!is_flags && !is_merge && !is_file && !is_learn && !token_is(word, "elements"))
        return parse_refuse_unexpected(
            &parser->lexer, PARSE_AT_SET, word,
            "type, typeof, flags, auto-merge, file, learn, elements, comment or \"}\"");
    if (!block->typed)
        return lexer_unexpected(&parser->lexer, word, TYPE_FIRST);
    if (is_flags)
        return parse_flags(parser, block, word);
    if (is_merge)
        return parse_auto_merge(parser, block, word);
    if (is_file)
        return parse_file(parser, block, word);
    return is_learn ? parse_learned(parser, block, word) : parse_elements(parser, block, word);
}

/// Sets the failure for an element that needs `flags interval`. Returns -EINVAL.
static int fail_ranged(struct parser *parser, const char *name, struct policy_place place) {
    return lexer_fail(&parser->lexer, place, "\"%s\": ranges and prefixes need flags interval",
                      name);
}

/// Checks a complete block by itself, without earlier declarations of the set.
static int check(struct parser *parser, const struct block *block, const struct token *end) {
    const struct policy_set *set = &block->set;

    if (!block->typed)
        return lexer_unexpected(&parser->lexer, end, TYPE_FIRST);
    if (set->auto_merge && !set->interval)
        return lexer_fail(&parser->lexer, set->place, "\"%s\": auto-merge needs flags interval",
                          set->name);
    if (block->ranged && !set->interval)
        return fail_ranged(parser, set->name, block->range);
    if (policy_set_learns(set) && (block->has_elements || block->has_flags || set->auto_merge))
        return lexer_fail(&parser->lexer, set->place, "\"%s\": " LEARNS, set->name);
    return 0;
}

/// Appends elements to a set.
static int append(struct parser *parser, struct policy_set *set,
                  const struct policy_elements *more) {
    struct policy_elements *elements = &set->elements;
    const size_t fields = elements->fields;

    for (uint32_t i = 0; i < more->count; i++) {
        const int status = parse_elements_room(parser, set->maps_to, elements);

        if (status != 0)
            return status;
        memcpy(&elements->ranges[elements->count * fields], &more->ranges[i * fields],
               fields * sizeof *more->ranges);
        if (more->targets)
            elements->targets[elements->count] = more->targets[i];
        if (more->marks)
            elements->marks[elements->count] = more->marks[i];
        elements->places[elements->count++] = more->places[i];
    }
    return 0;
}

/// Returns true if two sets learn the addresses of the same names, in the same order.
static bool equal_learned(const struct policy_elements *a, const struct policy_elements *b) {
    bool same = a->count == b->count;

    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->ranges[i].low == b->ranges[i].low;
    return same;
}

static bool same_key(const struct policy_key *a, const struct policy_key *b) {
    return a->count == b->count && memcmp(a->fields, b->fields, a->count * sizeof *a->fields) == 0;
}

/// Returns true if a block declares a set in the same way as earlier blocks.
static bool is_same(const struct policy_set *set, const struct block *block) {
    const struct policy_set *other = &block->set;

    return set->maps_to == other->maps_to && set->is_typeof == other->is_typeof &&
           (!set->is_typeof || same_key(&set->key, &other->key)) &&
           set->elements.fields == block->fields &&
           memcmp(set->types, other->types, block->fields * sizeof *set->types) == 0 &&
           set->interval == other->interval && set->constant == other->constant &&
           set->auto_merge == other->auto_merge && equal_learned(&set->learned, &other->learned);
}

/// Appends names from files to a set.
static int append_listed(struct parser *parser, struct policy_set *set,
                         struct policy_listed *more) {
    struct policy_listed *listed = &set->listed;

    for (uint32_t i = 0; i < more->file_count; i++) {
        struct policy_listed_file *files =
            parse_room(parser, listed->files, listed->file_count, sizeof *files);

        if (!files)
            return -ENOMEM;
        listed->files = files;
        files[listed->file_count++] = more->files[i];
        more->files[i].path = NULL;
    }
    for (uint32_t i = 0; i < more->count; i++) {
        uint32_t *ids = parse_room(parser, listed->ids, listed->count, sizeof *ids);

        if (!ids)
            return -ENOMEM;
        listed->ids = ids;
        ids[listed->count++] = more->ids[i];
    }
    return 0;
}

/// Adds a block's elements and files to the existing set with its name, and replaces the set's
/// comment if the block has one. Fails if the declarations differ, or if the set is constant and
/// the block has elements or files.
static int go_on(struct parser *parser, struct policy_set *set, struct block *block) {
    const bool same = is_same(set, block);
    const bool has_more = block->set.elements.count > 0 || block->set.listed.file_count > 0;
    int status;

    if (!same || (set->constant && has_more)) {
        char at[LOG_TEXT_BYTES];

        lexer_place_name(&parser->lexer, set->place, at, sizeof at);
        return lexer_fail(&parser->lexer, block->set.place, "\"%s\": %s %s", set->name,
                          same ? "constant since" : "declared otherwise at", at);
    }
    if (block->commented)
        memcpy(set->comment, block->set.comment, sizeof set->comment);
    status = append(parser, set, &block->set.elements);
    return status != 0 ? status : append_listed(parser, set, &block->set.listed);
}

/// Fails if a block declares a set that learns, and the policy already has POLICY_LEARNING_MAX sets
/// that learn.
static int check_learning(struct parser *parser, const struct block *block) {
    const struct policy *policy = &parser->policy;
    uint32_t learning = 0;

    if (!policy_set_learns(&block->set))
        return 0;
    for (uint32_t i = 0; i < policy->table_count; i++)
        for (uint32_t j = 0; j < policy->tables[i].set_count; j++)
            learning += policy_set_learns(&policy->tables[i].sets[j]);
    if (learning == POLICY_LEARNING_MAX)
        return lexer_fail(&parser->lexer, block->set.place, "\"%s\": more than %d sets that learn",
                          block->set.name, POLICY_LEARNING_MAX);
    return 0;
}

/// Declares the set of a block, or adds the block to the existing set with its name. The table owns
/// the elements of a new set.
static int declare(struct parser *parser, uint32_t table, struct block *block) {
    struct policy_table *owner = &parser->policy.tables[table];
    const int64_t known =
        parse_find_name(parser, PARSE_SET, table, block->name.text, block->name.length);
    struct policy_set *sets;
    int status;

    if (known != PARSE_NO_NAME)
        return go_on(parser, &owner->sets[known], block);
    status = check_learning(parser, block);
    if (status != 0)
        return status;
    sets = parse_room(parser, owner->sets, owner->set_count, sizeof *owner->sets);
    if (!sets)
        return -ENOMEM;
    owner->sets = sets;
    status = parse_add_name(parser, PARSE_SET, table, &block->name, owner->set_count);
    if (status != 0)
        return status;
    block->set.elements.fields = block->fields;
    sets[owner->set_count++] = block->set;
    block->set.elements = (struct policy_elements){0};
    block->set.listed = (struct policy_listed){0};
    block->set.learned = (struct policy_elements){0};
    return 0;
}

/// Parses the items of a block and its `}`, after the `{`.
static int parse_block(struct parser *parser, uint32_t table, struct block *block) {
    int status;

    do {
        const struct token token = lexer_consume(&parser->lexer);

        if (token.sign == SIGN_BRACE_CLOSE) {
            status = check(parser, block, &token);
            return status != 0 ? status : declare(parser, table, block);
        }
        status = token.kind == TOKEN_LINE_END || token.kind == TOKEN_SEMICOLON
                     ? 0
                     : parse_item(parser, block, &token);
    } while (status == 0);
    return status;
}

int parse_set_block(struct parser *parser, uint32_t table, bool is_map) {
    struct block block = {.is_map = is_map};
    int status =
        parse_name(parser, is_map ? "the name of a map" : "the name of a set", &block.name);

    if (status == 0)
        status = parse_sign(parser, SIGN_BRACE_OPEN, "\"{\"");
    if (status != 0)
        return status;
    parse_copy(block.set.name, &block.name);
    block.set.place = block.name.place;
    status = parse_block(parser, table, &block);
    policy_free_elements(&block.set.elements);
    policy_free_listed(&block.set.listed);
    policy_free_elements(&block.set.learned);
    return status;
}

int parse_set_add(struct parser *parser, uint32_t table) {
    struct policy_elements more = {0};
    struct policy_place place;
    struct parse_shape shape;
    struct policy_set *set;
    struct token name;
    bool ranged;
    int64_t known;
    int status = parse_name(parser, "the name of a set or map", &name);

    if (status != 0)
        return status;
    known = parse_find_name(parser, PARSE_SET, table, name.text, name.length);
    if (known == PARSE_NO_NAME)
        return lexer_wrong(&parser->lexer, &name, "no set or map of this name before this");
    set = &parser->policy.tables[table].sets[known];
    if (set->constant) {
        char at[LOG_TEXT_BYTES];

        return lexer_wrong(&parser->lexer, &name, "constant since %s",
                           lexer_place_name(&parser->lexer, set->place, at, sizeof at));
    }
    if (policy_set_learns(set))
        return lexer_wrong(&parser->lexer, &name, LEARNS);
    shape = parse_set_shape(set);
    status = parse_elements_read(parser, &shape, &more, &ranged, &place);
    if (status == 0 && ranged && !set->interval)
        status = fail_ranged(parser, set->name, place);
    if (status == 0)
        status = append(parser, set, &more);
    policy_free_elements(&more);
    return status;
}
