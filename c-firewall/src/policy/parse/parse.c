// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/forest.h"
#include "policy/parse/chain.h"
#include "policy/parse/lexer.h"
#include "policy/parse/refuse.h"
#include "policy/parse/resolve.h"
#include "policy/parse/rule.h"
#include "policy/parse/set.h"
#include "policy/parse/state.h"
#include "policy/token.h"

/// Parses the part after `flush`.
static int parse_flush(struct parser *parser, const struct token *word) {
    int status = parse_refuse_check(&parser->lexer, PARSE_AT_FLUSH, lexer_peek(&parser->lexer, 0));

    if (status == 0)
        status = parse_word(parser, "ruleset", "ruleset");
    if (status != 0)
        return status;
    if (parser->policy.table_count > 0)
        return lexer_wrong(&parser->lexer, word, "only before the first table");
    parser->policy.flush = true;
    return lexer_consume_end(&parser->lexer);
}

/// Parses an optional family. If there is none, the family is ip.
static int parse_family(struct parser *parser, enum policy_family *family) {
    const struct token token = *lexer_peek(&parser->lexer, 0);

    *family = POLICY_IP;
    for (uint32_t i = 0; i < POLICY_FAMILY_COUNT; i++) {
        if (token_is(&token, policy_family_name((enum policy_family)i))) {
            lexer_consume(&parser->lexer);
            *family = (enum policy_family)i;
            return 0;
        }
    }
    return parse_refuse_check(&parser->lexer, PARSE_AT_FAMILY, &token);
}

/// Parses the family and name of a table, and declares the table if it is new. Stores the table's
/// index.
static int declare_table(struct parser *parser, uint32_t *table) {
    struct policy *policy = &parser->policy;
    struct policy_table *tables;
    enum policy_family family;
    struct token name;
    int64_t known;
    int status = parse_family(parser, &family);

    if (status == 0)
        status = parse_name(parser, "the name of a table", &name);
    if (status != 0)
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
    if (status != 0)
        return status;
    tables[*table].family = family;
    parse_copy(tables[*table].name, &name);
    policy->table_count++;
    return 0;
}

/// Parses the family and name of a table that was declared before. Stores the table's index.
static int find_table(struct parser *parser, uint32_t *table) {
    enum policy_family family;
    struct token name;
    int64_t known;
    int status = parse_family(parser, &family);

    if (status == 0)
        status = parse_name(parser, "the name of a table", &name);
    if (status != 0)
        return status;
    known = parse_find_name(parser, PARSE_TABLE, family, name.text, name.length);
    if (known == PARSE_NO_NAME)
        return lexer_wrong(&parser->lexer, &name, "no table %s of this name before this",
                           policy_family_name(family));
    *table = (uint32_t)known;
    return 0;
}

/// Parses an item of a table's block, after the item's first token.
/// - commented: in/out: true if the block has had a comment.
static int parse_table_item(struct parser *parser, uint32_t table, const struct token *token,
                            bool *commented) {
    struct parse_chain block;
    int status;

    if (token_is(token, "chain")) {
        status = parse_chain_declare(parser, table, &block);
        if (status == 0)
            status = parse_sign(parser, SIGN_BRACE_OPEN, "\"{\"");
        if (status == 0)
            status = parse_chain_block(parser, &block, true);
    } else if (token_is(token, "set") || token_is(token, "map")) {
        status = parse_set_block(parser, table, token_is(token, "map"));
    } else if (token_is(token, "comment")) {
        if (*commented)
            return lexer_wrong(&parser->lexer, token, "given twice");
        *commented = true;
        status = parse_string(parser, parser->policy.tables[table].comment);
    } else if (parse_definition(parser, token, &status)) {
        return status;
    } else {
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_TABLE, token,
                                       "chain, set, map, comment, define, include or \"}\"");
    }
    return status != 0 ? status : lexer_consume_end(&parser->lexer);
}

/// Parses the part after `table`.
static int parse_table(struct parser *parser) {
    bool commented = false;
    uint32_t table;
    int status = declare_table(parser, &table);

    if (status != 0)
        return status;
    if (!lexer_consume_sign(&parser->lexer, SIGN_BRACE_OPEN))
        return lexer_consume_end(&parser->lexer);
    while (!lexer_consume_sign(&parser->lexer, SIGN_BRACE_CLOSE)) {
        const struct token token = lexer_consume(&parser->lexer);

        if (token.kind == TOKEN_LINE_END || token.kind == TOKEN_SEMICOLON)
            continue;
        status = parse_table_item(parser, table, &token, &commented);
        if (status != 0)
            return status;
    }
    return lexer_consume_end(&parser->lexer);
}

/// Parses the part after `add rule`.
static int add_rule(struct parser *parser) {
    struct policy_table *owner;
    struct token name;
    uint32_t table;
    int64_t known;
    int status = find_table(parser, &table);

    if (status == 0)
        status = parse_name(parser, "the name of a chain", &name);
    if (status != 0)
        return status;
    known = parse_find_name(parser, PARSE_CHAIN, table, name.text, name.length);
    if (known == PARSE_NO_NAME)
        return lexer_wrong(&parser->lexer, &name, "no chain of this name before this");
    owner = &parser->policy.tables[table];
    return parse_rule_read(parser, owner->family, &owner->chains[known], "a statement");
}

/// Parses the part after `add chain`, except the line end or `;` that ends it.
static int add_chain(struct parser *parser) {
    struct parse_chain block;
    uint32_t table;
    int status = find_table(parser, &table);

    if (status == 0)
        status = parse_chain_declare(parser, table, &block);
    if (status == 0 && lexer_consume_sign(&parser->lexer, SIGN_BRACE_OPEN))
        status = parse_chain_block(parser, &block, false);
    return status;
}

/// Parses the part after `add`.
static int parse_add(struct parser *parser) {
    const struct token token = lexer_consume(&parser->lexer);
    uint32_t table = 0;
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
    return status != 0 ? status : lexer_consume_end(&parser->lexer);
}

/// Parses an item of a file outside tables, after its first token.
static int parse_file_item(struct parser *parser, const struct token *token) {
    int status;

    if (token_is(token, "table"))
        return parse_table(parser);
    if (token_is(token, "add"))
        return parse_add(parser);
    if (token_is(token, "flush"))
        return parse_flush(parser, token);
    if (parse_definition(parser, token, &status))
        return status;
    return parse_refuse_unexpected(&parser->lexer, PARSE_AT_FILE, token,
                                   "table, define, include, flush or add");
}

/// Parses the complete text of an open lexer, makes the checks that need the complete text, and
/// closes the lexer.
static int read_policy(struct parser *parser, struct policy *policy) {
    int status = 0;

    while (status == 0) {
        const struct token token = lexer_consume(&parser->lexer);

        if (token.kind == TOKEN_END_OF_TEXT)
            break;
        if (token.kind != TOKEN_LINE_END && token.kind != TOKEN_SEMICOLON)
            status = parse_file_item(parser, &token);
    }
    if (status == 0)
        status = resolve_policy(parser);
    if (status == 0 && forest_make(parser->policy.hostnames) < 0)
        status = parse_no_memory(parser);
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
