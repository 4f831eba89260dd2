// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/chain.h"

#include <errno.h>

#include "policy/parse/refuse.h"
#include "policy/parse/rule.h"

int parse_chain_declare(struct parser *parser, uint32_t table, struct parse_chain *block) {
    struct policy_table *owner = &parser->policy.tables[table];
    struct policy_chain *chains;
    struct token name;
    int64_t known;
    int status = parse_name(parser, "the name of a chain", &name);

    if (status != 0)
        return status;
    known = parse_find_name(parser, PARSE_CHAIN, table, name.text, name.length);
    if (known != PARSE_NO_NAME) {
        *block = (struct parse_chain){&owner->chains[known], owner->family, .before = true};
        return 0;
    }
    chains = parse_room(parser, owner->chains, owner->chain_count, sizeof *owner->chains);
    if (!chains)
        return -ENOMEM;
    owner->chains = chains;
    status = parse_add_name(parser, PARSE_CHAIN, table, &name, owner->chain_count);
    if (status != 0)
        return status;
    *block = (struct parse_chain){&chains[owner->chain_count++], owner->family, .before = false};
    parse_copy(block->chain->name, &name);
    block->chain->place = name.place;
    return 0;
}

/// Parses the name of a chain's hook, after the word `hook`.
static int parse_hook(struct parser *parser, enum policy_hook *hook) {
    const struct token token = lexer_consume(&parser->lexer);

    for (uint32_t i = 0; i < POLICY_HOOK_COUNT; i++) {
        if (token_is(&token, policy_hook_name((enum policy_hook)i))) {
            *hook = (enum policy_hook)i;
            return 0;
        }
    }
    return parse_refuse_unexpected(&parser->lexer, PARSE_AT_HOOK, &token,
                                   "prerouting, input, forward, output or postrouting");
}

/// Word for a priority, its number, and the only hook that has the word (POLICY_HOOK_COUNT = all
/// hooks).
struct priority_word {
    const char *word;
    int64_t number;
    enum policy_hook only;
};

static const struct priority_word priority_words[] = {
    {"raw", -300, POLICY_HOOK_COUNT},    {"mangle", -150, POLICY_HOOK_COUNT},
    {"dstnat", -100, POLICY_PREROUTING}, {"filter", 0, POLICY_HOOK_COUNT},
    {"security", 50, POLICY_HOOK_COUNT}, {"srcnat", 100, POLICY_POSTROUTING},
};

/// Parses a number. Stores the priority from + sign * number. Fails if the priority does not fit
/// 32 bits.
static int parse_offset(struct parser *parser, int64_t from, int64_t sign, int32_t *priority) {
    struct token number;
    const int status = parse_number(parser, &number);
    int64_t sum;

    if (status != 0)
        return status;
    sum = from + sign * (int64_t)(number.number < UINT32_MAX ? number.number : UINT32_MAX);
    if (sum < INT32_MIN || sum > INT32_MAX)
        return lexer_wrong(&parser->lexer, &number, "a priority has 32 bits with its sign");
    *priority = (int32_t)sum;
    return 0;
}

/// Parses a chain's priority, after the word `priority`.
static int parse_priority(struct parser *parser, enum policy_hook hook, int32_t *priority) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    const struct priority_word *found = NULL;

    if (token.kind == TOKEN_NUMBER)
        return parse_offset(parser, 0, 1, priority);
    lexer_consume(&parser->lexer);
    if (token.sign == SIGN_MINUS)
        return parse_offset(parser, 0, -1, priority);
    for (uint32_t i = 0; i < sizeof priority_words / sizeof *priority_words; i++)
        if (token_is(&token, priority_words[i].word))
            found = &priority_words[i];
    if (!found)
        return lexer_unexpected(&parser->lexer, &token,
                                "a number, raw, mangle, dstnat, filter, security or srcnat");
    if (found->only != POLICY_HOOK_COUNT && found->only != hook)
        return lexer_wrong(&parser->lexer, &token,
                           "dstnat is of prerouting only, srcnat of postrouting");
    if (lexer_consume_sign(&parser->lexer, SIGN_PLUS))
        return parse_offset(parser, found->number, 1, priority);
    if (lexer_consume_sign(&parser->lexer, SIGN_MINUS))
        return parse_offset(parser, found->number, -1, priority);
    *priority = (int32_t)found->number;
    return 0;
}

/// Sets the failure of a block that declares a chain differently from an earlier block. Returns
/// -EINVAL.
static int fail_otherwise(struct parser *parser, const struct policy_chain *chain,
                          const struct token *word) {
    char at[LOG_TEXT_BYTES];

    return lexer_wrong(&parser->lexer, word, "this chain is declared otherwise at %s",
                       lexer_place_name(&parser->lexer, chain->place, at, sizeof at));
}

/// Parses the part after `type` in a chain.
static int parse_head(struct parser *parser, struct parse_chain *block, const struct token *word) {
    const struct token type = lexer_consume(&parser->lexer);
    struct policy_chain *chain = block->chain;
    enum policy_hook hook = POLICY_INPUT;
    int32_t priority = 0;
    int status;

    if (!token_is(&type, "filter"))
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_CHAIN_TYPE, &type, "filter");
    status = parse_word(parser, "hook", "hook");
    if (status == 0)
        status = parse_hook(parser, &hook);
    if (status == 0)
        status = parse_word(parser, "priority", "priority");
    if (status == 0)
        status = parse_priority(parser, hook, &priority);
    if (status == 0)
        status = lexer_consume_end(&parser->lexer);
    if (status != 0)
        return status;
    if (chain->is_base ? chain->hook != hook || chain->priority != priority : block->before)
        return fail_otherwise(parser, chain, word);
    if (!chain->is_base) {
        chain->is_base = true;
        chain->hook = hook;
        chain->priority = priority;
        chain->policy = POLICY_ACCEPT;
        chain->declared = parser->base_chains++;
    }
    block->head = true;
    return 0;
}

/// Parses the part after `policy` in a chain.
static int parse_policy(struct parser *parser, struct parse_chain *block,
                        const struct token *word) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    enum policy_verdict policy;
    int status;

    if (lexer_consume_word(&parser->lexer, "accept"))
        policy = POLICY_ACCEPT;
    else if (lexer_consume_word(&parser->lexer, "drop"))
        policy = POLICY_DROP;
    else
        return lexer_unexpected(&parser->lexer, &token, "accept or drop");
    status = lexer_consume_end(&parser->lexer);
    if (status != 0)
        return status;
    if (block->before && block->chain->policy != policy)
        return fail_otherwise(parser, block->chain, word);
    block->chain->policy = policy;
    return 0;
}

/// Parses an item of a chain's block.
/// - with_rules: true if rules, `define` and `include` are allowed, too; false after `add chain`.
static int parse_item(struct parser *parser, struct parse_chain *block, bool with_rules) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    int status;

    if (lexer_consume_word(&parser->lexer, "type"))
        return parse_head(parser, block, &token);
    if (lexer_consume_word(&parser->lexer, "policy")) {
        if (block->policy || !block->head)
            return lexer_wrong(&parser->lexer, &token, "once, after type, hook and priority");
        block->policy = true;
        return parse_policy(parser, block, &token);
    }
    if (lexer_consume_word(&parser->lexer, "comment")) {
        if (block->comment)
            return lexer_wrong(&parser->lexer, &token, "given twice");
        block->comment = true;
        status = parse_string(parser, block->chain->comment);
        return status != 0 ? status : lexer_consume_end(&parser->lexer);
    }
    if (!with_rules)
        return lexer_unexpected(&parser->lexer, &token, "type, policy, comment or \"}\"");
    if (token_is(&token, "define") || token_is(&token, "include")) {
        lexer_consume(&parser->lexer);
        parse_definition(parser, &token, &status);
        return status;
    }
    return parse_rule_read(parser, block->family, block->chain,
                           "a rule, type, policy, comment, define, include or \"}\"");
}

int parse_chain_block(struct parser *parser, struct parse_chain *block, bool with_rules) {
    int status = 0;

    while (status == 0 && !lexer_consume_sign(&parser->lexer, SIGN_BRACE_CLOSE)) {
        const enum token_kind kind = lexer_peek(&parser->lexer, 0)->kind;

        if (kind == TOKEN_LINE_END || kind == TOKEN_SEMICOLON)
            lexer_consume(&parser->lexer);
        else
            status = parse_item(parser, block, with_rules);
    }
    return status;
}
