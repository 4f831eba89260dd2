// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/rule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/count.h"
#include "policy/parse/elements.h"
#include "policy/parse/matches.h"
#include "policy/parse/refuse.h"
#include "policy/value.h"

/// Error texts: tokens that may follow a verdict or reject (AFTER_TERMINAL), or another statement
/// (AFTER_STATEMENT).
#define AFTER_TERMINAL "comment, the end of the line or \";\""
#define AFTER_STATEMENT "a statement, comment, the end of the line or \";\""

/// Value of a mark expression so far: (mark & keep) ^ toggle. A constant keeps no bit of the mark.
struct bits {
    uint32_t keep, toggle;
};

/// Parses a number in a mark expression.
static int mark_number(struct parser *parser, struct bits *bits) {
    struct policy_range range;
    const int status = parse_elements_value(parser, POLICY_MARK, 32, &range);

    if (status == 0)
        *bits = (struct bits){0, (uint32_t)range.low};
    return status;
}

/// Parses an optional operator of a mark expression, written as a sign or as a word (`&` or `and`).
/// Returns true if there was one.
static bool mark_op(struct parser *parser, enum token_sign sign, const char *word) {
    return lexer_consume_sign(&parser->lexer, sign) || lexer_consume_word(&parser->lexer, word);
}

static int mark_and(struct parser *parser, struct bits *bits) {
    while (mark_op(parser, SIGN_AND, "and")) {
        struct bits right = {0, 0};
        const int status = mark_number(parser, &right);

        if (status != 0)
            return status;
        bits->keep &= right.toggle;
        bits->toggle &= right.toggle;
    }
    return 0;
}

static int mark_xor(struct parser *parser, struct bits *bits) {
    int status = mark_and(parser, bits);

    while (status == 0 && mark_op(parser, SIGN_XOR, "xor")) {
        struct bits right = {0, 0};

        status = mark_number(parser, &right);
        if (status == 0)
            status = mark_and(parser, &right);
        if (status == 0)
            bits->toggle ^= right.toggle;
    }
    return status;
}

static int mark_or(struct parser *parser, struct bits *bits) {
    int status = mark_xor(parser, bits);

    while (status == 0 && mark_op(parser, SIGN_OR, "or")) {
        struct bits right = {0, 0};

        status = mark_number(parser, &right);
        if (status == 0)
            status = mark_xor(parser, &right);
        if (status == 0) {
            bits->keep &= ~right.toggle;
            bits->toggle |= right.toggle;
        }
    }
    return status;
}

/// Returns true if a token is an operator of a mark expression.
static bool is_mark_op(const struct token *token) {
    return token->sign == SIGN_AND || token->sign == SIGN_XOR || token->sign == SIGN_OR ||
           token_is(token, "and") || token_is(token, "xor") || token_is(token, "or");
}

/// Parses the part after `meta mark set`.
static int parse_mark_set(struct parser *parser, struct policy_mark_set *set) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    struct policy_key *key = &set->map.key;
    struct bits bits = {UINT32_MAX, 0};
    struct token next;
    int status;

    if (token.kind == TOKEN_NUMBER) {
        status = mark_number(parser, &bits);
    } else if (!parse_matches_begins(&token) || token_is(&token, "exthdr")) {
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_STATEMENT, &token,
                                       "a number, or a field");
    } else {
        status = parse_matches_key(parser, key);
        if (status != 0)
            return status;
        if (lexer_consume_word(&parser->lexer, "map")) {
            set->has_map = true;
            return parse_matches_lookup(parser, &set->map, POLICY_MARK_MAP);
        }
        next = *lexer_peek(&parser->lexer, 0);
        if (key->count > 1 || key->fields[0] != POLICY_META_MARK)
            return lexer_unexpected(&parser->lexer, &next, "map");
        if (!is_mark_op(&next))
            return lexer_unexpected(&parser->lexer, &next, "\"&\", \"|\", \"^\" or map");
        status = mark_or(parser, &bits);
    }
    *set = (struct policy_mark_set){.keep = bits.keep, .toggle = bits.toggle};
    return status;
}

/// Returns the reject that `reject` without `with` means in a table of this family.
static struct policy_reject default_reject(enum policy_family family) {
    static const struct policy_reject rejects[POLICY_FAMILY_COUNT] = {
        [POLICY_IP] = {POLICY_REJECT_ICMP, 3},
        [POLICY_IP6] = {POLICY_REJECT_ICMPV6, 4},
        [POLICY_INET] = {POLICY_REJECT_ICMPX, POLICY_ICMPX_PORT_UNREACHABLE}};

    return rejects[family];
}

/// Returns the reason why a rule can't reject with this kind of reply (its matches or its table
/// exclude such packets); NULL if it can.
static const char *reject_excluded(const struct parser *parser, enum policy_reject_kind kind) {
    const struct parse_tested *tested = &parser->tested;

    switch (kind) {
    case POLICY_REJECT_TCP_RESET:
        return parse_excludes(tested->protocol, PARSE_PROTOCOL_TCP)
                   ? "for TCP only, which a match before excludes"
                   : NULL;
    case POLICY_REJECT_ICMP:
        return parse_excludes(tested->layer3, PARSE_NFPROTO_IPV4)
                   ? "for IPv4 only, which the table or a match before excludes"
                   : NULL;
    case POLICY_REJECT_ICMPV6:
        return parse_excludes(tested->layer3, PARSE_NFPROTO_IPV6)
                   ? "for IPv6 only, which the table or a match before excludes"
                   : NULL;
    default:
        return tested->family == POLICY_INET ? NULL : "for a table inet only";
    }
}

/// Finds the kind of reject that a token after `with` names. Returns false if it names none.
static bool find_reject(const struct token *token, enum policy_reject_kind *kind) {
    static const char *const words[] = {[POLICY_REJECT_TCP_RESET] = "tcp",
                                        [POLICY_REJECT_ICMP] = "icmp",
                                        [POLICY_REJECT_ICMPV6] = "icmpv6",
                                        [POLICY_REJECT_ICMPX] = "icmpx"};

    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (token_is(token, words[i])) {
            *kind = (enum policy_reject_kind)i;
            return true;
        }
    }
    return false;
}

/// Parses the part after `reject`.
static int parse_reject(struct parser *parser, struct policy_reject *reject) {
    struct token token;
    const char *cause;

    if (!lexer_consume_word(&parser->lexer, "with")) {
        *reject = default_reject(parser->tested.family);
        return 0;
    }
    token = lexer_consume(&parser->lexer);
    if (!find_reject(&token, &reject->kind))
        return lexer_unexpected(&parser->lexer, &token, "tcp, icmp, icmpv6 or icmpx");
    cause = reject_excluded(parser, reject->kind);
    if (cause)
        return lexer_wrong(&parser->lexer, &token, "%s", cause);
    if (reject->kind == POLICY_REJECT_TCP_RESET)
        return parse_word(parser, "reset", "reset");
    lexer_consume_word(&parser->lexer, "type");
    token = lexer_consume(&parser->lexer);
    if (!value_begins(&token))
        return lexer_unexpected(&parser->lexer, &token, "the name of a code");
    cause = value_parse_reject(reject->kind, &token, &reject->code);
    return cause ? lexer_wrong(&parser->lexer, &token, "%s", cause) : 0;
}

/// Parses a statement that begins with a field: a match, a vmap, or a new mark. The statement owns
/// allocated memory, also on failure.
static int parse_field_statement(struct parser *parser, struct policy_statement *statement) {
    struct policy_key key;
    int status = parse_matches_key(parser, &key);
    struct token next;

    if (status != 0)
        return status;
    if (key.count == 1 && key.fields[0] == POLICY_META_MARK &&
        lexer_consume_word(&parser->lexer, "set")) {
        statement->kind = POLICY_MARK_SET;
        statement->mark_set = calloc(1, sizeof *statement->mark_set);
        return statement->mark_set ? parse_mark_set(parser, statement->mark_set)
                                   : parse_no_memory(parser);
    }
    next = *lexer_peek(&parser->lexer, 0);
    status = parse_refuse_check(&parser->lexer, PARSE_AT_ASSIGNED, &next);
    if (status != 0)
        return status;
    statement->kind = lexer_consume_word(&parser->lexer, "vmap") ? POLICY_VMAP : POLICY_MATCH;
    statement->match = calloc(1, sizeof *statement->match);
    if (!statement->match)
        return parse_no_memory(parser);
    statement->match->key = key;
    return statement->kind == POLICY_VMAP
               ? parse_matches_lookup(parser, statement->match, POLICY_VERDICT_MAP)
               : parse_matches_compared(parser, statement->match);
}

/// Parses the part of a verdict after its word: the name of the chain after jump and goto.
/// - word: the verdict's token, which was already consumed.
static int parse_verdict(struct parser *parser, const struct token *word,
                         enum policy_verdict verdict, struct policy_statement *statement) {
    statement->kind = POLICY_VERDICT;
    statement->target = calloc(1, sizeof *statement->target);
    if (!statement->target)
        return parse_no_memory(parser);
    return parse_elements_target(parser, word, verdict, statement->target);
}

/// Parses a statement into a zeroed struct, which owns allocated memory, also on failure.
/// - expected: error text if no statement begins here.
static int parse_statement(struct parser *parser, struct policy_statement *statement,
                           const char *expected) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    enum policy_verdict verdict;

    statement->place = token.place;
    if (parse_matches_begins(&token))
        return parse_field_statement(parser, statement);
    lexer_consume(&parser->lexer);
    if (parse_elements_find_verdict(&token, &verdict))
        return parse_verdict(parser, &token, verdict, statement);
    if (token_is(&token, "counter")) {
        statement->kind = POLICY_COUNTER;
        return parse_count_counter(parser, &statement->counter);
    }
    if (token_is(&token, "limit")) {
        statement->kind = POLICY_LIMIT;
        return parse_count_limit(parser, &statement->limit);
    }
    if (token_is(&token, "quota")) {
        statement->kind = POLICY_QUOTA;
        return parse_count_quota(parser, &statement->quota);
    }
    if (token_is(&token, "log")) {
        statement->kind = POLICY_LOG;
        statement->log = calloc(1, sizeof *statement->log);
        return statement->log ? parse_count_log(parser, statement->log) : parse_no_memory(parser);
    }
    if (token_is(&token, "reject")) {
        statement->kind = POLICY_REJECT;
        return parse_reject(parser, &statement->reject);
    }
    return parse_refuse_unexpected(&parser->lexer, PARSE_AT_STATEMENT, &token, expected);
}

/// Parses a comment's text. An empty text counts as no comment.
static int parse_comment(struct parser *parser, struct policy_rule *rule) {
    char text[POLICY_NAME_BYTES];
    const int status = parse_string(parser, text);

    if (status != 0 || !*text)
        return status;
    rule->comment = strdup(text);
    return rule->comment ? 0 : parse_no_memory(parser);
}

/// Returns true if a token ends a rule.
static bool ends(const struct token *token) {
    return token->kind == TOKEN_LINE_END || token->kind == TOKEN_SEMICOLON ||
           token->kind == TOKEN_END_OF_TEXT;
}

/// Parses the statements of a rule, which include its matches, and its comment.
/// - expected: error text if no statement begins here.
static int parse_statements(struct parser *parser, struct policy_rule *rule, const char *expected) {
    for (;;) {
        const struct token token = *lexer_peek(&parser->lexer, 0);
        struct policy_statement *statements =
            parse_room(parser, rule->statements, rule->count, sizeof *rule->statements);
        struct token next;
        enum policy_statement_kind kind;
        int status;

        if (!statements)
            return -ENOMEM;
        rule->statements = statements;
        status = parse_statement(parser, &statements[rule->count++], expected);
        if (status != 0)
            return status;
        if (rule->count > PARSE_STATEMENTS_MAX)
            return lexer_wrong(&parser->lexer, &token, "more than %d statements in a rule",
                               PARSE_STATEMENTS_MAX);
        if (lexer_consume_word(&parser->lexer, "comment"))
            return parse_comment(parser, rule);
        next = *lexer_peek(&parser->lexer, 0);
        if (ends(&next))
            return 0;
        kind = statements[rule->count - 1].kind;
        if (kind == POLICY_VERDICT || kind == POLICY_REJECT)
            return lexer_unexpected(&parser->lexer, &next, AFTER_TERMINAL);
        expected = AFTER_STATEMENT;
    }
}

int parse_rule_read(struct parser *parser, enum policy_family family, struct policy_chain *chain,
                    const char *expected) {
    const struct token first = *lexer_peek(&parser->lexer, 0);
    struct policy_rule rule = {.place = first.place};
    struct policy_rule *rules;
    int status;

    parser->tested = parse_tested(family);
    status = parse_statements(parser, &rule, expected);
    if (status == 0)
        status = lexer_consume_end(&parser->lexer);
    if (status == 0 && parser->rules >= POLICY_RULES_MAX)
        status = lexer_wrong(&parser->lexer, &first, "more than %d rules", POLICY_RULES_MAX);
    if (status != 0)
        goto cleanup;
    rules = parse_room(parser, chain->rules, chain->count, sizeof *chain->rules);
    if (!rules) {
        status = -ENOMEM;
        goto cleanup;
    }
    chain->rules = rules;
    rules[chain->count++] = rule;
    parser->rules++;
    return 0;
cleanup:
    policy_free_rule(&rule);
    return status;
}
