// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/matches.h"

#include <errno.h>
#include <string.h>

#include "policy/parse/overlap.h"
#include "policy/parse/refuse.h"
#include "policy/value.h"
#include "spec/group.h"

/// Returns the field with a group's words and the token after them; POLICY_FIELD_COUNT if no field
/// has these words. (A group is the first word or words of several fields: `ip` in `ip saddr`.
/// Fields of one word, such as iifname, belong to the group meta.)
static enum policy_field find_field(const char *group, const struct token *second) {
    for (uint32_t i = 0; i < POLICY_FIELD_COUNT; i++) {
        const char *text = policy_field_facts((enum policy_field)i)->text;
        const char *blank = strrchr(text, ' ');
        const size_t first = blank ? (size_t)(blank - text) : 0;

        if (blank ? strlen(group) == first && memcmp(group, text, first) == 0 &&
                        token_is(second, blank + 1)
                  : strcmp(group, "meta") == 0 && token_is(second, text))
            return (enum policy_field)i;
    }
    return POLICY_FIELD_COUNT;
}

/// Returns the group of fields (`ip` for `ip saddr` and `ip daddr`) that has this token as its only
/// word; NULL if there is none.
static const struct group *find_group(const struct token *token) {
    for (uint32_t i = 0; i < GROUP_COUNT; i++)
        if (token_is(token, group_words[i].word))
            return &group_words[i];
    return NULL;
}

/// Returns the group of two words (`tcp option` for `tcp option mptcp`) that consists of a group's
/// word and the token after it; NULL if there is none.
static const struct group *find_longer(const struct group *group, const struct token *token) {
    const size_t first = strlen(group->word);

    for (uint32_t i = 0; i < GROUP_COUNT; i++) {
        const char *word = group_words[i].word;

        if (strncmp(word, group->word, first) == 0 && word[first] == ' ' &&
            token_is(token, word + first + 1))
            return &group_words[i];
    }
    return NULL;
}

bool parse_matches_begins(const struct token *token) {
    for (uint32_t i = 0; i < GROUP_ALONE_COUNT; i++)
        if (token_is(token, group_alone[i]))
            return true;
    return find_group(token);
}

/// Returns the boolean field with the same text as a field, if `exists` or `missing` comes next;
/// does not consume the word. Returns the field itself if neither comes next, or if no boolean
/// field has this text.
static enum policy_field existence(struct parser *parser, enum policy_field field) {
    const struct token *next = lexer_peek(&parser->lexer, 0);
    const char *text = policy_field_facts(field)->text;

    if (!token_is(next, "exists") && !token_is(next, "missing"))
        return field;
    for (uint32_t i = 0; i < POLICY_FIELD_COUNT; i++) {
        const struct policy_field_facts *facts = policy_field_facts((enum policy_field)i);

        if (facts->type == POLICY_BOOLEAN && strcmp(facts->text, text) == 0)
            return (enum policy_field)i;
    }
    return field;
}

/// Parses a field, such as `tcp dport` or `iifname`. If `exists` or `missing` comes next, the
/// result is the boolean field with the same text, if there is one (existence).
static int parse_field(struct parser *parser, enum policy_field *field) {
    const struct token first = lexer_consume(&parser->lexer);
    const struct group *group = find_group(&first);
    const struct group *longer;
    struct token second = first;

    if (!parse_matches_begins(&first))
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_STATEMENT, &first, "a field");
    if (group)
        second = lexer_consume(&parser->lexer);
    else
        group = &group_words[GROUP_META];
    longer = find_longer(group, &second);
    if (longer) {
        group = longer;
        second = lexer_consume(&parser->lexer);
    }
    *field = find_field(group->word, &second);
    if (*field == POLICY_FIELD_COUNT)
        return parse_refuse_unexpected(&parser->lexer, group->at, &second, group->expected);
    *field = existence(parser, *field);
    return 0;
}

int parse_matches_key(struct parser *parser, struct policy_key *key) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    uint32_t bytes = 0;
    bool has_alpn = false;

    key->count = 0;
    do {
        const struct token token = *lexer_peek(&parser->lexer, 0);
        enum policy_field field = POLICY_FIELD_COUNT;
        int status = parse_field(parser, &field);

        if (status != 0)
            return status;
        field = parse_family_field(&parser->tested, field);
        status = parse_test_field(parser, &token, field);
        if (status != 0)
            return status;
        if (key->count == POLICY_KEY_FIELDS_MAX)
            return lexer_wrong(&parser->lexer, &token, "more than %d fields in a key",
                               POLICY_KEY_FIELDS_MAX);
        bytes += (policy_field_facts(field)->bits + 31U) / 32 * 4;
        key->fields[key->count++] = field;
        has_alpn |= field == POLICY_TLS_ALPN;
    } while (lexer_consume_sign(&parser->lexer, SIGN_DOT));
    if (has_alpn && key->count > 1)
        return lexer_wrong(&parser->lexer, &first, PARSE_ALPN_ALONE);
    if (key->count > 1 && bytes > PARSE_KEY_BYTES_MAX)
        return lexer_wrong(&parser->lexer, &first, "a key of more than %d bytes",
                           PARSE_KEY_BYTES_MAX);
    return 0;
}

/// Finds the comparison that a token names. Returns false if it names none.
static bool find_op(const struct token *token, enum policy_op *op) {
    static const struct {
        enum token_sign sign;
        const char *word;
        enum policy_op op;
    } ops[] = {{SIGN_EQ, "eq", POLICY_EQ}, {SIGN_NE, "ne", POLICY_NE}, {SIGN_LT, "lt", POLICY_LT},
               {SIGN_GT, "gt", POLICY_GT}, {SIGN_LE, "le", POLICY_LE}, {SIGN_GE, "ge", POLICY_GE}};

    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (token->sign == ops[i].sign || token_is(token, ops[i].word)) {
            *op = ops[i].op;
            return true;
        }
    }
    return false;
}

/// Parses the elements `{ … }` of a literal set or map, and merges equal elements. Other elements
/// may overlap in a set, but not in a map (overlap).
static int literal(struct parser *parser, const struct parse_shape *shape,
                   struct policy_match *match) {
    struct policy_place place;
    bool ranged;
    int status;

    match->right = POLICY_RIGHT_LITERAL;
    status = parse_elements_read(parser, shape, &match->elements, &ranged, &place);
    if (status != 0)
        return status;
    return overlap_check(parser, shape, &match->elements, true);
}

/// Parses `@NAME`. The set of this name is found later (resolve).
static int named(struct parser *parser, struct policy_match *match) {
    struct policy_place *places;
    struct token name;
    int status;

    lexer_consume(&parser->lexer);
    status = parse_name(parser, "the name of a set or map", &name);
    if (status != 0)
        return status;
    places =
        parse_room(parser, parser->set_places, parser->set_place_count, sizeof *parser->set_places);
    if (!places)
        return -ENOMEM;
    parser->set_places = places;
    places[parser->set_place_count] = name.place;
    match->right = POLICY_RIGHT_NAMED;
    match->set = parser->set_place_count++;
    parse_copy(match->set_name, &name);
    return 0;
}

int parse_matches_lookup(struct parser *parser, struct policy_match *match,
                         enum policy_maps_to maps_to) {
    const struct token token = *lexer_peek(&parser->lexer, 0);

    match->op = POLICY_EQ;
    if (match->key.count == 1 && match->key.fields[0] == POLICY_TLS_ALPN)
        return lexer_wrong(&parser->lexer, &token, PARSE_ALPN_ALONE);
    if (token.sign == SIGN_AT)
        return named(parser, match);
    if (token.sign == SIGN_BRACE_OPEN) {
        const struct parse_shape shape = parse_elements_shape(&match->key, maps_to, false);

        return literal(parser, &shape, match);
    }
    return lexer_unexpected(&parser->lexer, &token, "\"{\" or \"@\" and the name of a map");
}

/// Parses further flags, each after a `,`, and adds them to *all.
static int more_flags(struct parser *parser, const struct policy_field_facts *facts,
                      policy_value *all) {
    while (lexer_consume_sign(&parser->lexer, SIGN_COMMA)) {
        struct policy_range range;
        const int status = parse_elements_value(parser, facts->type, facts->bits, &range);

        if (status != 0)
            return status;
        *all |= range.low;
    }
    return 0;
}

/// Parses flags that are joined by `,` or by `|`. Flags joined by `|` may be in parentheses. Both
/// ends of the range are the combined flags.
static int flag_list(struct parser *parser, const struct policy_field_facts *facts,
                     struct policy_range *range) {
    const bool joined = lexer_peek(&parser->lexer, 1)->sign == SIGN_OR;
    const bool round = lexer_peek(&parser->lexer, 0)->sign == SIGN_ROUND_OPEN;
    struct parse_component component;
    int status = parse_elements_component(parser, facts->type, facts->bits, &component);

    if (status == 0 && !joined && !round)
        status = more_flags(parser, facts, &component.range.low);
    if (status != 0)
        return status;
    *range = (struct policy_range){component.range.low, component.range.low};
    return 0;
}

/// Parses `& MASK` after a field. The mask is one value, or flags in parentheses.
static int parse_mask(struct parser *parser, const struct policy_field_facts *facts,
                      policy_value *mask) {
    const enum policy_type type = facts->type;
    const bool maskable = type == POLICY_TCP_FLAG || type == POLICY_INTEGER ||
                          type == POLICY_MARK || type == POLICY_IPV4_ADDR ||
                          type == POLICY_IPV6_ADDR || type == POLICY_INET_SERVICE;
    const struct token sign = lexer_consume(&parser->lexer);
    struct parse_component component;
    int status;

    if (!maskable)
        return lexer_wrong(&parser->lexer, &sign,
                           "a mask is for tcp flags, marks, addresses, ports, lengths and the "
                           "like");
    if (lexer_peek(&parser->lexer, 0)->sign == SIGN_ROUND_OPEN && value_is_flags(type))
        status = parse_elements_component(parser, type, facts->bits, &component);
    else
        status = parse_elements_value(parser, type, facts->bits, &component.range);
    if (status == 0)
        *mask = component.range.low;
    return status;
}

/// Parses `& MASK` after a field, the comparison, and its operand.
static int masked(struct parser *parser, struct policy_match *match) {
    const struct policy_field_facts *facts = policy_field_facts(match->key.fields[0]);
    int status = parse_mask(parser, facts, &match->mask);
    struct token sign;

    if (status != 0)
        return status;
    match->masked = true;
    sign = lexer_consume(&parser->lexer);
    if (!find_op(&sign, &match->op) || (match->op != POLICY_EQ && match->op != POLICY_NE))
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_MASKED, &sign, "\"==\" or \"!=\"");
    if (lexer_peek(&parser->lexer, 0)->sign == SIGN_BRACE_OPEN) {
        const struct parse_shape shape = parse_elements_shape(&match->key, POLICY_SET, true);

        return literal(parser, &shape, match);
    }
    match->right = POLICY_RIGHT_RANGE;
    if (value_is_flags(facts->type))
        return flag_list(parser, facts, &match->range);
    return parse_elements_value(parser, facts->type, facts->bits, &match->range);
}

/// Parses flags after a field and an optional comparison, and the optional `/ MASK` after TCP
/// flags. Without comparison and mask, the match holds if at least one of the flags is set.
/// - is_given: true if there was a comparison, which match->op then has.
static int flags(struct parser *parser, struct policy_match *match, bool is_given) {
    const struct policy_field_facts *facts = policy_field_facts(match->key.fields[0]);
    struct policy_range mask;
    int status = flag_list(parser, facts, &match->range);

    match->right = POLICY_RIGHT_RANGE;
    if (!is_given)
        match->op = POLICY_BITS_ANY;
    if (status != 0 || facts->type != POLICY_TCP_FLAG ||
        !lexer_consume_sign(&parser->lexer, SIGN_SLASH))
        return status;
    status = parse_elements_value(parser, facts->type, facts->bits, &mask);
    if (status == 0)
        status = more_flags(parser, facts, &mask.low);
    if (status != 0)
        return status;
    if (!is_given)
        match->op = POLICY_EQ;
    match->masked = true;
    match->mask = mask.low;
    return 0;
}

/// Parses the operand of `<`, `>`, `<=` or `>=`.
/// - sign: the comparison's token.
static int ordered(struct parser *parser, struct policy_match *match, const struct token *sign) {
    const struct policy_field_facts *facts = policy_field_facts(match->key.fields[0]);
    const enum token_sign next = lexer_peek(&parser->lexer, 0)->sign;
    struct parse_component component;
    int status;

    if (match->key.count > 1 || next == SIGN_AT || next == SIGN_BRACE_OPEN)
        return lexer_wrong(&parser->lexer, sign, "sets take == and != only");
    if (!parse_elements_is_ordered(facts->type))
        return lexer_wrong(&parser->lexer, sign, "for numbers and addresses only");
    status = parse_elements_component(parser, facts->type, facts->bits, &component);
    if (status != 0)
        return status;
    if (component.ranged)
        return lexer_wrong(&parser->lexer, sign, "takes one value, not a range");
    match->right = POLICY_RIGHT_RANGE;
    match->range = component.range;
    return 0;
}

/// Returns the protocol that a match of one protocol number implies. Returns PARSE_TESTED_SEVERAL
/// for the number 0, because the value 0 (PARSE_TESTED_ANY) means that no protocol is implied.
static uint16_t told(const struct policy_range *range) {
    return range->low == 0 ? PARSE_TESTED_SEVERAL : (uint16_t)range->low;
}

/// Records the protocol that a match of a protocol's number implies, like nft. Only single numbers
/// after `==` or no comparison count, not ranges or named sets. After a match of several numbers,
/// no field of a single protocol may be used.
static void learn_match(struct parser *parser, const struct policy_match *match) {
    const enum policy_field field = match->key.fields[0];
    const bool is_literal = match->right == POLICY_RIGHT_LITERAL;
    const struct policy_range *ranges = is_literal ? match->elements.ranges : &match->range;
    const uint32_t count = is_literal ? match->elements.count : 1;
    uint16_t *known;

    if (match->key.count > 1 || match->right == POLICY_RIGHT_NAMED || match->op != POLICY_EQ)
        return;
    if (field == POLICY_META_L4PROTO || field == POLICY_IP_PROTOCOL || field == POLICY_IP6_NEXTHDR)
        known = &parser->tested.protocol;
    else if (field == POLICY_META_NFPROTO)
        known = &parser->tested.layer3;
    else
        return;
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].low == ranges[i].high)
            parse_learn(known, told(&ranges[i]));
}

/// Replaces a set with a single flags value by that value, like nft.
/// - any: true if the match holds for any of these flags; false if it holds for exactly these
///   flags.
static void unbrace_flags(struct policy_match *match, bool any) {
    const struct policy_field_facts *facts = policy_field_facts(match->key.fields[0]);

    if (match->op != POLICY_EQ || match->key.count > 1 || !value_is_flags(facts->type) ||
        match->elements.count > 1)
        return;
    match->right = POLICY_RIGHT_RANGE;
    match->range = match->elements.ranges[0];
    if (any)
        match->op = POLICY_BITS_ANY;
    policy_free_elements(&match->elements);
    match->elements = (struct policy_elements){0};
}

/// Parses the operand after a key and `==`, `!=` or nothing.
/// - is_given: true if there was a comparison.
static int equal(struct parser *parser, struct policy_match *match, bool is_given) {
    const struct policy_field_facts *facts = policy_field_facts(match->key.fields[0]);
    const struct token next = *lexer_peek(&parser->lexer, 0);
    struct parse_component component;
    int status;

    if (next.sign == SIGN_AT)
        return named(parser, match);
    if (next.sign == SIGN_BRACE_OPEN) {
        const struct parse_shape shape = parse_elements_shape(&match->key, POLICY_SET, false);
        const uint32_t before = parser->elements;

        status = literal(parser, &shape, match);
        if (status == 0)
            unbrace_flags(match, !is_given && parser->elements - before == 1);
        return status;
    }
    if (match->key.count > 1)
        return lexer_unexpected(&parser->lexer, &next, "\"{\" or \"@\" and the name of a set");
    if (value_is_flags(facts->type))
        return flags(parser, match, is_given);
    if (!value_begins(&next))
        return lexer_unexpected(&parser->lexer, &next,
                                "a value, \"{\" or \"@\" and the name of a set");
    status = parse_elements_component(parser, facts->type, facts->bits, &component);
    if (status != 0)
        return status;
    match->right = POLICY_RIGHT_RANGE;
    match->range = component.range;
    return 0;
}

int parse_matches_compared(struct parser *parser, struct policy_match *match) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    bool is_given;
    int status;

    if (match->key.count == 1 && (first.sign == SIGN_AND || token_is(&first, "and")))
        return masked(parser, match);
    match->op = POLICY_EQ;
    is_given = find_op(&first, &match->op);
    if (is_given)
        lexer_consume(&parser->lexer);
    if (match->op != POLICY_EQ && match->op != POLICY_NE)
        return ordered(parser, match, &first);
    status = equal(parser, match, is_given);
    if (status == 0)
        learn_match(parser, match);
    return status;
}
