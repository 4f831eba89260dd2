// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/state.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/directive.h"

/// A declared name of a table, chain or set, as a node of the tree of names.
struct name {
    enum parse_name_kind kind;
    uint32_t scope, index;
    const char *text;
    size_t length;
};

void parse_state_free(struct parser *parser) {
    tdestroy(parser->names, free);
    free(parser->set_places);
    policy_free(&parser->policy);
}

int parse_no_memory(struct parser *parser) { return lexer_fail_memory(&parser->lexer); }

void *parse_room(struct parser *parser, void *array, uint32_t count, size_t size) {
    char *room = array;

    if ((count & (count - 1)) == 0) {
        room = realloc(array, (count ? 2 * (size_t)count : 1) * size);
        if (!room) {
            parse_no_memory(parser);
            return NULL;
        }
    }
    memset(room + count * size, 0, size);
    return room;
}

static int compare_names(const void *left, const void *right) {
    const struct name *a = left, *b = right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->scope != b->scope)
        return a->scope < b->scope ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return memcmp(a->text, b->text, a->length);
}

int64_t parse_find_name(const struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                        const char *text, size_t length) {
    const struct name wanted = {.kind = kind, .scope = scope, .text = text, .length = length};
    struct name *const *found = tfind(&wanted, &parser->names, compare_names);

    return found ? (int64_t)(*found)->index : PARSE_NO_NAME;
}

int parse_add_name(struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                   const struct token *name, uint32_t index) {
    struct name *added = malloc(sizeof *added);

    if (!added)
        return parse_no_memory(parser);
    *added = (struct name){kind, scope, index, name->text, name->length};
    if (!tsearch(added, &parser->names, compare_names)) {
        free(added);
        return parse_no_memory(parser);
    }
    return 0;
}

void parse_copy(char text[static POLICY_NAME_BYTES], const struct token *token) {
    memcpy(text, token->text, token->length);
    text[token->length] = '\0';
}

int parse_name(struct parser *parser, const char *expected, struct token *name) {
    const struct token token = lexer_consume(&parser->lexer);

    if (token.kind != TOKEN_WORD)
        return lexer_unexpected(&parser->lexer, &token, expected);
    if (token_is_reserved(token.text, token.length))
        return lexer_wrong(&parser->lexer, &token, "a word of the language is no name");
    *name = token;
    return 0;
}

int parse_string(struct parser *parser, char text[static POLICY_NAME_BYTES]) {
    const struct token token = lexer_consume(&parser->lexer);
    const bool is_word = token.kind == TOKEN_WORD && !token_is_reserved(token.text, token.length);

    if (token.kind != TOKEN_STRING && !is_word)
        return lexer_unexpected(&parser->lexer, &token, "a text in quotes");
    parse_copy(text, &token);
    return 0;
}

int parse_sign(struct parser *parser, enum token_sign sign, const char *expected) {
    const struct token token = lexer_consume(&parser->lexer);

    if (token.sign != sign)
        return lexer_unexpected(&parser->lexer, &token, expected);
    return 0;
}

int parse_word(struct parser *parser, const char *word, const char *expected) {
    const struct token token = lexer_consume(&parser->lexer);

    if (!token_is(&token, word))
        return lexer_unexpected(&parser->lexer, &token, expected);
    return 0;
}

int parse_number(struct parser *parser, struct token *number) {
    *number = lexer_consume(&parser->lexer);
    if (number->kind != TOKEN_NUMBER)
        return lexer_unexpected(&parser->lexer, number, "a number");
    return 0;
}

int parse_count_element(struct parser *parser, const struct token *token) {
    if (parser->elements >= POLICY_ELEMENTS_MAX)
        return lexer_wrong(&parser->lexer, token, "more than %d elements in all sets",
                           POLICY_ELEMENTS_MAX);
    parser->elements++;
    return 0;
}

/// Returns the name of a protocol, for the error that a field needs this protocol.
static const char *protocol_name(uint16_t protocol) {
    switch (protocol) {
    case PARSE_PROTOCOL_ICMP:
        return "icmp";
    case PARSE_PROTOCOL_TCP:
        return "tcp";
    case PARSE_PROTOCOL_UDP:
        return "udp";
    default:
        return "icmpv6";
    }
}

/// Returns the protocol of layer 3 that a field needs: PARSE_NFPROTO_*, or PARSE_TESTED_ANY if it
/// needs none.
static uint16_t layer3_of(const struct policy_field_facts *facts) {
    static const uint16_t layers[] = {[POLICY_ANY_L3] = PARSE_TESTED_ANY,
                                      [POLICY_NEEDS_IPV4] = PARSE_NFPROTO_IPV4,
                                      [POLICY_NEEDS_IPV6] = PARSE_NFPROTO_IPV6};

    return layers[facts->layer3];
}

enum policy_field parse_family_field(const struct parse_tested *tested, enum policy_field field) {
    const struct policy_field_facts *facts = policy_field_facts(field);
    const bool has_protocol = facts->protocol != 0 && tested->layer3 == PARSE_TESTED_ANY &&
                              tested->protocol == facts->protocol;

    if (!has_protocol && !parse_excludes(tested->layer3, layer3_of(facts)))
        return field;
    for (uint32_t i = 0; i < POLICY_FIELD_COUNT; i++) {
        const struct policy_field_facts *other = policy_field_facts((enum policy_field)i);

        if (strcmp(other->text, facts->text) == 0 && other->type == facts->type &&
            other->layer3 == POLICY_ANY_L3)
            return (enum policy_field)i;
    }
    return field;
}

int parse_test_field(struct parser *parser, const struct token *token, enum policy_field field) {
    const struct policy_field_facts *facts = policy_field_facts(field);
    struct parse_tested *tested = &parser->tested;
    const uint16_t layer3 = layer3_of(facts);

    if (tested->fields == PARSE_FIELDS_MAX)
        return lexer_wrong(&parser->lexer, token, "more than %d fields in a rule",
                           PARSE_FIELDS_MAX);
    tested->fields++;
    if (tested->is_typeof)
        return 0;
    if (parse_excludes(tested->layer3, layer3))
        return lexer_wrong(&parser->lexer, token,
                           "%s needs %s, which the table or a match before excludes", facts->text,
                           layer3 == PARSE_NFPROTO_IPV4 ? "IPv4" : "IPv6");
    if (parse_excludes(tested->protocol, facts->protocol))
        return lexer_wrong(&parser->lexer, token,
                           "%s needs the protocol %s, which a match before excludes", facts->text,
                           protocol_name(facts->protocol));
    if (field == POLICY_META_NFPROTO && tested->family != POLICY_INET)
        return lexer_wrong(&parser->lexer, token, "meta nfproto is for a table inet only");
    parse_learn(&tested->layer3, layer3);
    parse_learn(&tested->protocol, facts->protocol);
    return 0;
}

struct parse_tested parse_tested(enum policy_family family) {
    static const uint16_t layers[POLICY_FAMILY_COUNT] = {[POLICY_IP] = PARSE_NFPROTO_IPV4,
                                                         [POLICY_IP6] = PARSE_NFPROTO_IPV6,
                                                         [POLICY_INET] = PARSE_TESTED_ANY};

    return (struct parse_tested){family, layers[family], PARSE_TESTED_ANY, 0, false};
}

bool parse_excludes(uint16_t known, uint16_t needed) {
    return known != PARSE_TESTED_ANY && needed != PARSE_TESTED_ANY && known != needed;
}

void parse_learn(uint16_t *known, uint16_t told) {
    if (told != PARSE_TESTED_ANY)
        *known = parse_excludes(*known, told) ? PARSE_TESTED_SEVERAL : told;
}

bool parse_definition(struct parser *parser, const struct token *word, int *status) {
    if (token_is(word, "define")) {
        *status = directive_define(&parser->lexer);
        if (*status == 0)
            *status = lexer_consume_end(&parser->lexer);
        return true;
    }
    if (token_is(word, "include")) {
        *status = directive_include(&parser->lexer);
        return true;
    }
    return false;
}
