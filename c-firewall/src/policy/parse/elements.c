// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/elements.h"

#include <errno.h>

#include "policy/parse/refuse.h"
#include "policy/value.h"

struct parse_shape parse_elements_shape(const struct policy_key *key, enum policy_maps_to maps_to,
                                        bool exact) {
    struct parse_shape shape = {.count = key->count, .maps_to = maps_to, .exact = exact};

    for (uint32_t i = 0; i < key->count; i++) {
        const struct policy_field_facts *facts = policy_field_facts(key->fields[i]);

        shape.types[i] = facts->type;
        shape.bits[i] = facts->bits;
    }
    return shape;
}

bool parse_elements_is_ordered(enum policy_type type) {
    return !value_is_flags(type) && type != POLICY_IFNAME && type != POLICY_IFACE_INDEX &&
           type != POLICY_NF_PROTO && type != POLICY_BOOLEAN && type != POLICY_HOSTNAME &&
           type != POLICY_ALPN && type != POLICY_HTTP_METHOD;
}

/// Parses a host name in quotes, and adds it to the policy's host names. Both ends of the range are
/// the name's number.
static int hostname(struct parser *parser, const struct token *token, struct policy_range *range) {
    const char *cause = "write the name of a host in quotes";
    struct hostname name;
    uint32_t id = 0;

    if (token->kind == TOKEN_STRING)
        cause = hostname_parse(token->text, token->length, &name);
    if (cause)
        return lexer_wrong(&parser->lexer, token, "%s", cause);
    if (!parser->policy.hostnames)
        parser->policy.hostnames = hostname_make();
    if (!parser->policy.hostnames ||
        hostname_add(parser->policy.hostnames, name.bytes, name.length, name.wildcard, &id) < 0)
        return parse_no_memory(parser);
    *range = (struct policy_range){id, id};
    return 0;
}

int parse_elements_value(struct parser *parser, enum policy_type type, uint8_t bits,
                         struct policy_range *range) {
    struct lexer *lexer = &parser->lexer;
    const struct token token = lexer_consume(lexer);
    const char *cause;

    if (!value_begins(&token))
        return parse_refuse_unexpected(lexer, PARSE_AT_ELEMENT, &token, "a value");
    if (type == POLICY_HOSTNAME)
        return hostname(parser, &token, range);
    if (type == POLICY_IFNAME || type == POLICY_IFACE_INDEX) {
        if (token.kind == TOKEN_WORD && token_is_reserved(token.text, token.length))
            return lexer_wrong(lexer, &token, "a word of the language: write it in quotes");
        if (token.length == 1 && *token.text == '*')
            return lexer_wrong(lexer, &token, "this matches every interface");
        if (token.length >= VALUE_INTERFACE_BYTES)
            return lexer_wrong(lexer, &token, "longer than the 15 bytes of an interface's name");
    }
    cause = value_parse(type, bits, &token, range);
    return cause ? lexer_wrong(lexer, &token, "%s", cause) : 0;
}

/// Parses flags joined by `|`, in parentheses or not.
static int flags(struct parser *parser, enum policy_type type, uint8_t bits,
                 struct policy_range *range) {
    const bool round = lexer_consume_sign(&parser->lexer, SIGN_ROUND_OPEN);
    int status = parse_elements_value(parser, type, bits, range);

    if (status != 0)
        return status;
    while (lexer_consume_sign(&parser->lexer, SIGN_OR)) {
        struct policy_range more = {0};

        status = parse_elements_value(parser, type, bits, &more);
        if (status != 0)
            return status;
        range->low |= more.low;
    }
    range->high = range->low;
    return round ? parse_sign(parser, SIGN_ROUND_CLOSE, "\"|\" or \")\"") : 0;
}

int parse_elements_component(struct parser *parser, enum policy_type type, uint8_t bits,
                             struct parse_component *component) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    struct policy_range *range = &component->range;
    int status;

    *component = (struct parse_component){0};
    if (value_is_flags(type))
        return flags(parser, type, bits, range);
    status = parse_elements_value(parser, type, bits, range);
    if (status != 0)
        return status;
    component->ranged = range->low != range->high;
    if (parse_elements_is_ordered(type) && lexer_consume_sign(&parser->lexer, SIGN_MINUS)) {
        struct policy_range end = {0};

        status = parse_elements_value(parser, type, bits, &end);
        if (status != 0)
            return status;
        range->high = end.high;
        component->ranged = true;
        if (range->high < range->low)
            return lexer_wrong(&parser->lexer, &first, "a range that runs backwards");
    } else if ((type == POLICY_IPV4_ADDR || type == POLICY_IPV6_ADDR) &&
               lexer_consume_sign(&parser->lexer, SIGN_SLASH)) {
        struct token length;
        const char *cause;

        status = parse_number(parser, &length);
        if (status != 0)
            return status;
        cause = value_prefix(type, range->low, length.number, range);
        if (cause)
            return lexer_wrong(&parser->lexer, &length, "%s", cause);
        component->ranged = true;
    }
    return 0;
}

int parse_elements_target(struct parser *parser, const struct token *word,
                          enum policy_verdict verdict, struct policy_target *target) {
    struct token name;
    int status;

    *target = (struct policy_target){.verdict = verdict, .place = word->place};
    if (verdict != POLICY_JUMP && verdict != POLICY_GOTO)
        return 0;
    status = parse_refuse_check(&parser->lexer, PARSE_AT_TARGET, lexer_peek(&parser->lexer, 0));
    if (status == 0)
        status = parse_name(parser, "the name of a chain", &name);
    if (status != 0)
        return status;
    parse_copy(target->chain, &name);
    target->place = name.place;
    return 0;
}

bool parse_elements_find_verdict(const struct token *token, enum policy_verdict *verdict) {
    static const char *const words[] = {
        [POLICY_ACCEPT] = "accept", [POLICY_DROP] = "drop", [POLICY_CONTINUE] = "continue",
        [POLICY_RETURN] = "return", [POLICY_JUMP] = "jump", [POLICY_GOTO] = "goto"};

    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (token_is(token, words[i])) {
            *verdict = (enum policy_verdict)i;
            return true;
        }
    }
    return false;
}

/// Parses a `:` and the value of a map's element. Stores the value at index elements->count. Does
/// nothing for a set, because its elements have no value.
static int mapped(struct parser *parser, enum policy_maps_to maps_to,
                  struct policy_elements *elements) {
    enum policy_verdict verdict;
    struct policy_range mark;
    struct token token;
    int status;

    if (maps_to == POLICY_SET)
        return 0;
    status = parse_sign(parser, SIGN_COLON, "\":\" and the element's value");
    if (status != 0)
        return status;
    if (maps_to == POLICY_MARK_MAP) {
        status = parse_elements_value(parser, POLICY_MARK, 32, &mark);
        if (status == 0)
            elements->marks[elements->count] = (uint32_t)mark.low;
        return status;
    }
    token = lexer_consume(&parser->lexer);
    if (!parse_elements_find_verdict(&token, &verdict))
        return lexer_unexpected(&parser->lexer, &token,
                                "accept, drop, continue, return, jump or goto");
    return parse_elements_target(parser, &token, verdict, &elements->targets[elements->count]);
}

int parse_elements_room(struct parser *parser, enum policy_maps_to maps_to,
                        struct policy_elements *elements) {
    const uint32_t count = elements->count;
    void *room =
        parse_room(parser, elements->ranges, count, elements->fields * sizeof *elements->ranges);

    if (!room)
        return -ENOMEM;
    elements->ranges = room;
    room = parse_room(parser, elements->places, count, sizeof *elements->places);
    if (!room)
        return -ENOMEM;
    elements->places = room;
    if (maps_to == POLICY_VERDICT_MAP) {
        room = parse_room(parser, elements->targets, count, sizeof *elements->targets);
        if (!room)
            return -ENOMEM;
        elements->targets = room;
    } else if (maps_to == POLICY_MARK_MAP) {
        room = parse_room(parser, elements->marks, count, sizeof *elements->marks);
        if (!room)
            return -ENOMEM;
        elements->marks = room;
    }
    return 0;
}

/// Parses one element.
/// - ranged: out: true if a field of the element was written with a range, a prefix or `*`.
static int element(struct parser *parser, const struct parse_shape *shape,
                   struct policy_elements *elements, bool *ranged) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    int status = parse_count_element(parser, &first);

    *ranged = false;
    if (status == 0)
        status = parse_elements_room(parser, shape->maps_to, elements);
    for (uint32_t i = 0; i < shape->count && status == 0; i++) {
        struct parse_component component;

        if (i > 0)
            status = parse_sign(parser, SIGN_DOT, "\".\" and the element's next field");
        if (status == 0)
            status = parse_elements_component(parser, shape->types[i], shape->bits[i], &component);
        if (status != 0)
            return status;
        if (component.ranged && shape->exact)
            return lexer_wrong(&parser->lexer, &first,
                               "single values only, as the field is masked");
        *ranged |= component.ranged;
        elements->ranges[(size_t)elements->count * shape->count + i] = component.range;
    }
    if (status == 0)
        status = mapped(parser, shape->maps_to, elements);
    if (status == 0)
        elements->places[elements->count++] = first.place;
    return status;
}

int parse_elements_single(struct parser *parser, const struct parse_shape *shape,
                          struct policy_elements *elements) {
    bool ranged;

    elements->fields = shape->count;
    return element(parser, shape, elements, &ranged);
}

/// Places of the braces that are open while the elements of a set are parsed, the outermost first.
struct braces {
    uint32_t depth;
    struct policy_place open[POLICY_BRACE_DEPTH_MAX];
};

/// Returns true if a place comes after the place `other` in the same file.
static bool is_behind(struct policy_place place, struct policy_place other) {
    return place.file == other.file &&
           (place.line > other.line || (place.line == other.line && place.column > other.column));
}

/// Parses the opening braces before an element. Braces within braces may only come from a $NAME;
/// nft refuses inner braces that are written in the same text.
static int opened(struct parser *parser, struct braces *braces) {
    struct lexer *lexer = &parser->lexer;

    for (;;) {
        const struct token token = *lexer_peek(lexer, 0);

        if (token.sign != SIGN_BRACE_OPEN)
            return 0;
        if (is_behind(token.place, braces->open[braces->depth - 1]))
            return lexer_wrong(lexer, &token, "braces in braces come from a $NAME only");
        if (braces->depth == POLICY_BRACE_DEPTH_MAX)
            return lexer_wrong(lexer, &token, "more than %d braces in one another",
                               POLICY_BRACE_DEPTH_MAX);
        lexer_consume(lexer);
        braces->open[braces->depth++] = token.place;
    }
}

/// Parses the closing braces after an element, except for the outermost brace. Returns true if the
/// outermost brace is next.
static bool closed(struct parser *parser, struct braces *braces) {
    while (lexer_peek(&parser->lexer, 0)->sign == SIGN_BRACE_CLOSE) {
        if (braces->depth == 1)
            return true;
        lexer_consume(&parser->lexer);
        braces->depth--;
    }
    return false;
}

int parse_elements_read(struct parser *parser, const struct parse_shape *shape,
                        struct policy_elements *elements, bool *ranged,
                        struct policy_place *place) {
    struct lexer *lexer = &parser->lexer;
    struct braces braces = {1, {lexer_peek(lexer, 0)->place}};
    int status = parse_sign(parser, SIGN_BRACE_OPEN, "\"{\"");
    bool last = false;

    *ranged = false;
    elements->fields = shape->count;
    while (status == 0 && !last) {
        struct policy_place first;
        bool is_ranged = false;

        lexer_braces(lexer, true);
        status = opened(parser, &braces);
        first = lexer_peek(lexer, 0)->place;
        lexer_braces(lexer, false);
        if (status == 0)
            status = element(parser, shape, elements, &is_ranged);
        if (status != 0)
            return status;
        if (is_ranged && !*ranged) {
            *ranged = true;
            *place = first;
        }
        lexer_braces(lexer, true);
        last = closed(parser, &braces);
        if (!last) {
            const struct token comma = lexer_consume(lexer);

            if (comma.sign != SIGN_COMMA)
                return parse_refuse_unexpected(lexer, PARSE_AT_ELEMENT, &comma, "\",\" or \"}\"");
            while (lexer_consume_sign(lexer, SIGN_COMMA))
                ;
            last = closed(parser, &braces);
        }
        if (last)
            lexer_consume(lexer);
        lexer_braces(lexer, false);
    }
    return status;
}
