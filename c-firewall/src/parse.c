// SPDX-License-Identifier: GPL-2.0-or-later
#include "parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lexer.h"
#include "parse_refuse.h"
#include "parse_rule.h"
#include "parse_set.h"
#include "parse_state.h"
#include "resolve.h"
#include "token.h"

/// Takes a define or include whose word was taken. Whether it was one; status then says how it
/// went.
static bool definition(struct parser *parser, const struct token *word, int *status) {
    if (token_is(word, "define")) {
        *status = lexer_define(&parser->lexer);
        if (*status == 0)
            *status = lexer_take_end(&parser->lexer);
        return true;
    }
    if (token_is(word, "include")) {
        *status = lexer_include(&parser->lexer);
        return true;
    }
    return false;
}

/// Takes what stands behind `flush`.
static int read_flush(struct parser *parser, const struct token *word) {
    const int status = parse_word(parser, "ruleset", "ruleset");

    if (status < 0)
        return status;
    if (parser->policy.table_count > 0)
        return lexer_wrong(&parser->lexer, word, "only before the first table");
    parser->policy.flush = true;
    return lexer_take_end(&parser->lexer);
}

/// Takes a family if one stands there.
static int read_family(struct parser *parser, enum policy_family *family) {
    const struct token token = *lexer_peek(&parser->lexer, 0);

    *family = POLICY_IP;
    for (uint32_t i = 0; i < POLICY_FAMILY_COUNT; i++) {
        if (token_is(&token, policy_family_name((enum policy_family)i))) {
            lexer_take(&parser->lexer);
            *family = (enum policy_family)i;
            return 0;
        }
    }
    return parse_refuse_check(&parser->lexer, PARSE_AT_FAMILY, &token);
}

/// Takes the name of a table, and declares it if it is new.
static int declare_table(struct parser *parser, uint32_t *table) {
    struct policy *policy = &parser->policy;
    struct policy_table *tables;
    enum policy_family family;
    struct token name;
    int64_t known;
    int status = read_family(parser, &family);

    if (status == 0)
        status = parse_name(parser, "the name of a table", &name);
    if (status < 0)
        return status;
    known = parse_find_name(parser, PARSE_TABLE, family, name.text, name.length);
    *table = known == PARSE_NO_NAME ? policy->table_count : (uint32_t)known;
    if (known != PARSE_NO_NAME)
        return 0;
    tables = parse_room(parser, policy->tables, policy->table_count, sizeof *policy->tables);
    if (!tables)
        return -ENOMEM;
    policy->tables = tables;
    status = parse_add_name(parser, PARSE_TABLE, family, &name, *table);
    if (status < 0)
        return status;
    tables[*table].family = family;
    parse_copy(tables[*table].name, &name);
    policy->table_count++;
    return 0;
}

/// Takes the name of a table that was declared before.
static int find_table(struct parser *parser, uint32_t *table) {
    enum policy_family family;
    struct token name;
    int64_t known;
    int status = read_family(parser, &family);

    if (status == 0)
        status = parse_name(parser, "the name of a table", &name);
    if (status < 0)
        return status;
    known = parse_find_name(parser, PARSE_TABLE, family, name.text, name.length);
    if (known == PARSE_NO_NAME)
        return lexer_wrong(&parser->lexer, &name, "no table %s of this name before this",
                           policy_family_name(family));
    *table = (uint32_t)known;
    return 0;
}

/// A chain that a block goes on with, and what the block has said so far.
struct chain_block {
    struct policy_chain *chain;
    enum policy_family family;
    bool before; // declared not by this block
    bool head, policy, comment;
};

/// Takes the name of a chain, and declares it if it is new.
static int declare_chain(struct parser *parser, uint32_t table, struct chain_block *block) {
    struct policy_table *owner = &parser->policy.tables[table];
    struct policy_chain *chains;
    struct token name;
    int64_t known;
    int status = parse_name(parser, "the name of a chain", &name);

    if (status < 0)
        return status;
    known = parse_find_name(parser, PARSE_CHAIN, table, name.text, name.length);
    if (known != PARSE_NO_NAME) {
        *block = (struct chain_block){&owner->chains[known], owner->family, .before = true};
        return 0;
    }
    chains = parse_room(parser, owner->chains, owner->chain_count, sizeof *owner->chains);
    if (!chains)
        return -ENOMEM;
    owner->chains = chains;
    status = parse_add_name(parser, PARSE_CHAIN, table, &name, owner->chain_count);
    if (status < 0)
        return status;
    *block = (struct chain_block){&chains[owner->chain_count++], owner->family, .before = false};
    parse_copy(block->chain->name, &name);
    block->chain->place = name.place;
    return 0;
}

/// Takes the hook behind `hook`.
static int read_hook(struct parser *parser, enum policy_hook *hook) {
    const struct token token = lexer_take(&parser->lexer);

    for (uint32_t i = 0; i < POLICY_HOOK_COUNT; i++) {
        if (token_is(&token, policy_hook_name((enum policy_hook)i))) {
            *hook = (enum policy_hook)i;
            return 0;
        }
    }
    return parse_refuse_unexpected(&parser->lexer, PARSE_AT_HOOK, &token,
                                   "prerouting, input, forward, output or postrouting");
}

/// A word for a priority, its number, and the only hook that has it (POLICY_HOOK_COUNT = all).
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

/// Takes the number behind `+` or `-`.
static int read_offset(struct parser *parser, int64_t from, int64_t sign, int32_t *priority) {
    struct token number;
    const int status = parse_number(parser, &number);
    int64_t sum;

    if (status < 0)
        return status;
    sum = from + sign * (int64_t)(number.number < UINT32_MAX ? number.number : UINT32_MAX);
    if (sum < INT32_MIN || sum > INT32_MAX)
        return lexer_wrong(&parser->lexer, &number, "a priority has 32 bits with its sign");
    *priority = (int32_t)sum;
    return 0;
}

/// Takes the priority behind `priority`.
static int read_priority(struct parser *parser, enum policy_hook hook, int32_t *priority) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    const struct priority_word *found = NULL;

    if (token.kind == TOKEN_NUMBER)
        return read_offset(parser, 0, 1, priority);
    lexer_take(&parser->lexer);
    if (token.sign == SIGN_MINUS)
        return read_offset(parser, 0, -1, priority);
    for (uint32_t i = 0; i < sizeof priority_words / sizeof *priority_words; i++)
        if (token_is(&token, priority_words[i].word))
            found = &priority_words[i];
    if (!found)
        return lexer_unexpected(&parser->lexer, &token,
                                "a number, raw, mangle, dstnat, filter, security or srcnat");
    if (found->only != POLICY_HOOK_COUNT && found->only != hook)
        return lexer_wrong(&parser->lexer, &token,
                           "dstnat is of prerouting only, srcnat of postrouting");
    if (lexer_take_sign(&parser->lexer, SIGN_PLUS))
        return read_offset(parser, found->number, 1, priority);
    if (lexer_take_sign(&parser->lexer, SIGN_MINUS))
        return read_offset(parser, found->number, -1, priority);
    *priority = (int32_t)found->number;
    return 0;
}

/// Fails of a chain that a block declares in another way than before.
static int fail_otherwise(struct parser *parser, const struct policy_chain *chain,
                          const struct token *word) {
    char at[LOG_TEXT_BYTES];

    return lexer_wrong(&parser->lexer, word, "this chain is declared otherwise at %s",
                       lexer_place_name(&parser->lexer, chain->place, at, sizeof at));
}

/// Takes what stands behind `type` in a chain.
static int read_head(struct parser *parser, struct chain_block *block, const struct token *word) {
    const struct token type = lexer_take(&parser->lexer);
    struct policy_chain *chain = block->chain;
    enum policy_hook hook = POLICY_INPUT;
    int32_t priority = 0;
    int status;

    if (!token_is(&type, "filter"))
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_CHAIN_TYPE, &type, "filter");
    status = parse_word(parser, "hook", "hook");
    if (status == 0)
        status = read_hook(parser, &hook);
    if (status == 0)
        status = parse_word(parser, "priority", "priority");
    if (status == 0)
        status = read_priority(parser, hook, &priority);
    if (status == 0)
        status = lexer_take_end(&parser->lexer);
    if (status < 0)
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

/// Takes what stands behind `policy` in a chain.
static int read_chain_policy(struct parser *parser, struct chain_block *block,
                             const struct token *word) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    enum policy_verdict policy;
    int status;

    if (lexer_take_word(&parser->lexer, "accept"))
        policy = POLICY_ACCEPT;
    else if (lexer_take_word(&parser->lexer, "drop"))
        policy = POLICY_DROP;
    else
        return lexer_unexpected(&parser->lexer, &token, "accept or drop");
    status = lexer_take_end(&parser->lexer);
    if (status < 0)
        return status;
    if (block->before && block->chain->policy != policy)
        return fail_otherwise(parser, block->chain, word);
    block->chain->policy = policy;
    return 0;
}

/// Takes an item of a chain's block.
/// - with_rules: rules may stand there, and not only what a chain is.
static int read_chain_item(struct parser *parser, struct chain_block *block, bool with_rules) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    int status;

    if (lexer_take_word(&parser->lexer, "type"))
        return read_head(parser, block, &token);
    if (lexer_take_word(&parser->lexer, "policy")) {
        if (block->policy || !block->head)
            return lexer_wrong(&parser->lexer, &token, "once, behind type, hook and priority");
        block->policy = true;
        return read_chain_policy(parser, block, &token);
    }
    if (lexer_take_word(&parser->lexer, "comment")) {
        if (block->comment)
            return lexer_wrong(&parser->lexer, &token, "given twice");
        block->comment = true;
        status = parse_string(parser, block->chain->comment);
        return status < 0 ? status : lexer_take_end(&parser->lexer);
    }
    if (!with_rules)
        return lexer_unexpected(&parser->lexer, &token, "type, policy, comment or \"}\"");
    if (token_is(&token, "define") || token_is(&token, "include")) {
        lexer_take(&parser->lexer);
        definition(parser, &token, &status);
        return status;
    }
    return parse_rule_read(parser, block->family, block->chain,
                           "a rule, type, policy, comment, define, include or \"}\"");
}

/// Takes the items of a chain and the `}`, after the `{`.
static int read_chain_block(struct parser *parser, struct chain_block *block, bool with_rules) {
    int status = 0;

    while (status == 0 && !lexer_take_sign(&parser->lexer, SIGN_BRACE_CLOSE)) {
        const enum token_kind kind = lexer_peek(&parser->lexer, 0)->kind;

        if (kind == TOKEN_LINE_END || kind == TOKEN_SEMICOLON)
            lexer_take(&parser->lexer);
        else
            status = read_chain_item(parser, block, with_rules);
    }
    return status;
}

/// Takes an item of a table's block; its first token was taken.
static int read_table_item(struct parser *parser, uint32_t table, const struct token *token,
                           bool *commented) {
    struct chain_block block;
    int status;

    if (token_is(token, "chain")) {
        status = declare_chain(parser, table, &block);
        if (status == 0)
            status = parse_sign(parser, SIGN_BRACE_OPEN, "\"{\"");
        if (status == 0)
            status = read_chain_block(parser, &block, true);
    } else if (token_is(token, "set") || token_is(token, "map")) {
        status = parse_set_block(parser, table, token_is(token, "map"));
    } else if (token_is(token, "comment")) {
        if (*commented)
            return lexer_wrong(&parser->lexer, token, "given twice");
        *commented = true;
        status = parse_string(parser, parser->policy.tables[table].comment);
    } else if (definition(parser, token, &status)) {
        return status;
    } else {
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_TABLE, token,
                                       "chain, set, map, comment, define, include or \"}\"");
    }
    return status < 0 ? status : lexer_take_end(&parser->lexer);
}

/// Takes what stands behind `table`.
static int read_table(struct parser *parser) {
    bool commented = false;
    uint32_t table;
    int status = declare_table(parser, &table);

    if (status < 0)
        return status;
    if (!lexer_take_sign(&parser->lexer, SIGN_BRACE_OPEN))
        return lexer_take_end(&parser->lexer);
    while (!lexer_take_sign(&parser->lexer, SIGN_BRACE_CLOSE)) {
        const struct token token = lexer_take(&parser->lexer);

        if (token.kind == TOKEN_LINE_END || token.kind == TOKEN_SEMICOLON)
            continue;
        status = read_table_item(parser, table, &token, &commented);
        if (status < 0)
            return status;
    }
    return lexer_take_end(&parser->lexer);
}

/// Takes what stands behind `add rule`.
static int add_rule(struct parser *parser) {
    struct policy_table *owner;
    struct token name;
    uint32_t table;
    int64_t known;
    int status = find_table(parser, &table);

    if (status == 0)
        status = parse_name(parser, "the name of a chain", &name);
    if (status < 0)
        return status;
    known = parse_find_name(parser, PARSE_CHAIN, table, name.text, name.length);
    if (known == PARSE_NO_NAME)
        return lexer_wrong(&parser->lexer, &name, "no chain of this name before this");
    owner = &parser->policy.tables[table];
    return parse_rule_read(parser, owner->family, &owner->chains[known], "a statement");
}

/// Takes what stands behind `add chain`, but for the end.
static int add_chain(struct parser *parser) {
    struct chain_block block;
    uint32_t table;
    int status = find_table(parser, &table);

    if (status == 0)
        status = declare_chain(parser, table, &block);
    if (status == 0 && lexer_take_sign(&parser->lexer, SIGN_BRACE_OPEN))
        status = read_chain_block(parser, &block, false);
    return status;
}

/// Takes what stands behind `add`.
static int read_add(struct parser *parser) {
    const struct token token = lexer_take(&parser->lexer);
    uint32_t table;
    int status;

    if (token_is(&token, "rule"))
        return add_rule(parser);
    if (token_is(&token, "table")) {
        status = declare_table(parser, &table);
    } else if (token_is(&token, "chain")) {
        status = add_chain(parser);
    } else if (token_is(&token, "set") || token_is(&token, "map")) {
        status = find_table(parser, &table);
        if (status == 0)
            status = parse_set_block(parser, table, token_is(&token, "map"));
    } else if (token_is(&token, "element")) {
        status = find_table(parser, &table);
        if (status == 0)
            status = parse_set_add(parser, table);
    } else {
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_ADD, &token,
                                       "table, chain, rule, set, map or element");
    }
    return status < 0 ? status : lexer_take_end(&parser->lexer);
}

/// Takes what a file has outside tables; its first token was taken.
static int read_file_item(struct parser *parser, const struct token *token) {
    int status;

    if (token_is(token, "table"))
        return read_table(parser);
    if (token_is(token, "add"))
        return read_add(parser);
    if (token_is(token, "flush"))
        return read_flush(parser, token);
    if (definition(parser, token, &status))
        return status;
    return parse_refuse_unexpected(&parser->lexer, PARSE_AT_FILE, token,
                                   "table, define, include, flush or add");
}

/// Reads the whole text of an open lexer, which is closed then.
static int read_policy(struct parser *parser, struct policy *policy) {
    int status = 0;

    while (status == 0) {
        const struct token token = lexer_take(&parser->lexer);

        if (token.kind == TOKEN_END_OF_TEXT)
            break;
        if (token.kind != TOKEN_LINE_END && token.kind != TOKEN_SEMICOLON)
            status = read_file_item(parser, &token);
    }
    if (status == 0)
        status = resolve_policy(parser);
    if (status == 0) {
        lexer_take_names(&parser->lexer, &parser->policy);
        *policy = parser->policy;
        parser->policy = (struct policy){0};
    }
    parse_state_free(parser);
    lexer_close(&parser->lexer);
    return status;
}

int parse_file(const char *path, struct policy *policy, struct failure *failure) {
    struct parser *parser = calloc(1, sizeof *parser);
    int status;

    if (!parser) {
        failure_set(failure, LOG_EXIT_CALL, "not enough memory for the policy");
        return -ENOMEM;
    }
    status = lexer_open_file(&parser->lexer, path, failure);
    if (status == 0)
        status = read_policy(parser, policy);
    else
        lexer_close(&parser->lexer);
    free(parser);
    return status;
}

int parse_text(const char *name, const uint8_t *text, size_t bytes, struct policy *policy,
               struct failure *failure) {
    struct parser *parser = calloc(1, sizeof *parser);
    int status;

    if (!parser) {
        failure_set(failure, LOG_EXIT_CALL, "not enough memory for the policy");
        return -ENOMEM;
    }
    status = lexer_open_text(&parser->lexer, name, text, bytes, failure);
    if (status == 0)
        status = read_policy(parser, policy);
    else
        lexer_close(&parser->lexer);
    free(parser);
    return status;
}
