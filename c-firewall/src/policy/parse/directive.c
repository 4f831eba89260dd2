// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/directive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/source.h"

/// Stores the token after a define's value as the token that the lexer reads next.
static void leave_end(struct lexer *lexer, const struct token *token) {
    if (token->kind == TOKEN_END_OF_TEXT)
        return;
    lexer->line_ended = token->kind == TOKEN_LINE_END;
    lexer->ahead[lexer->held++] = *token;
}

/// Skips the value of a define. Stores the place in the text at which the value ends. The line end
/// or `;` after the value is not consumed.
static int skip_value(struct lexer *lexer, const char **end) {
    uint32_t depth = 0;
    bool empty = true;

    for (;; empty = false) {
        const struct token token = lexer_scan(lexer);

        if (token.kind == TOKEN_LINE_END && depth > 0)
            continue;
        if (token.kind == TOKEN_LINE_END || token.kind == TOKEN_SEMICOLON ||
            token.kind == TOKEN_END_OF_TEXT) {
            if (depth > 0)
                return lexer_unexpected(lexer, &token, "\"}\"");
            if (empty)
                return lexer_unexpected(lexer, &token, "a value");
            leave_end(lexer, &token);
            *end = token.text;
            return 0;
        }
        if (token.sign == SIGN_BRACE_CLOSE && depth == 0)
            return lexer_unexpected(lexer, &token, "a value");
        if (token.kind == TOKEN_VARIABLE && !lexer_find_define(lexer, &token))
            return lexer_wrong(lexer, &token, LEXER_UNDEFINED);
        if (token.kind == TOKEN_BAD)
            return lexer_unexpected(lexer, &token, "");
        depth += token.sign == SIGN_BRACE_OPEN;
        depth -= token.sign == SIGN_BRACE_CLOSE;
    }
}

int directive_define(struct lexer *lexer) {
    struct lexer_define define = {.name = lexer_consume(lexer)};
    const struct lexer_define *known;
    struct token sign;
    int error;

    if (define.name.kind != TOKEN_WORD || token_is_reserved(define.name.text, define.name.length))
        return lexer_unexpected(lexer, &define.name, "a name");
    known = lexer_find_define(lexer, &define.name);
    if (known) {
        const struct policy_place place = known->name.place;

        return lexer_wrong(lexer, &define.name, "already defined at %s:%" PRIu32 ":%" PRIu32,
                           lexer->names[place.file], place.line, place.column);
    }
    sign = lexer_consume(lexer);
    if (sign.sign != SIGN_ASSIGN)
        return lexer_unexpected(lexer, &sign, "\"=\"");
    define.value = *lexer_top(lexer);
    define.value.is_define = true;
    error = skip_value(lexer, &define.value.end);
    return error ? error : lexer_keep_define(lexer, &define);
}

/// Returns the path of an included file, which the caller frees. A relative path is relative to the
/// folder of the including file.
static char *include_name(const char *from, const struct token *path) {
    const char *slash = strrchr(from, '/');
    const bool absolute = path->length > 0 && path->text[0] == '/';
    const int directory = slash && !absolute ? (int)(slash - from) + 1 : 0;
    char *name;

    if (asprintf(&name, "%.*s%.*s", directory, from, (int)path->length, path->text) < 0)
        return NULL;
    return name;
}

static bool has_wildcard(const struct token *path) {
    return memchr(path->text, '*', path->length) || memchr(path->text, '?', path->length) ||
           memchr(path->text, '[', path->length);
}

int directive_file_name(struct lexer *lexer, const struct token *path, char **name) {
    if (has_wildcard(path))
        return lexer_wrong(lexer, path, "no wildcards: include each file by its name");
    *name = include_name(lexer->names[path->place.file], path);
    return *name ? 0 : lexer_fail_memory(lexer);
}

/// Returns true if the lexer is reading this file already, so that including it would never end.
static bool is_open(const struct lexer *lexer, const struct source *source) {
    for (uint32_t i = 0; i < lexer->depth; i++) {
        const struct lexer_file *file = &lexer->files[lexer->frames[i].file];

        if (!lexer->frames[i].is_define && file->inode == source->inode &&
            file->device == source->device)
            return true;
    }
    return false;
}

/// Checks that a file may be included: it does not include itself, and keeps the limits of depth
/// and size.
static int check_include(struct lexer *lexer, const struct token *path,
                         const struct source *source) {
    if (is_open(lexer, source))
        return lexer_wrong(lexer, path, "this file includes itself");
    if (lexer_count_frames(lexer, false) >= POLICY_INCLUDE_DEPTH_MAX)
        return lexer_wrong(lexer, path, "more than %d files in one another",
                           POLICY_INCLUDE_DEPTH_MAX);
    if (source->bytes > lexer_bytes_left(lexer))
        return lexer_wrong(lexer, path, LEXER_TOO_LARGE);
    return 0;
}

int directive_include(struct lexer *lexer) {
    const struct token path = lexer_consume(lexer);
    struct source source;
    char *name = NULL;
    int error;

    if (path.kind != TOKEN_STRING)
        return lexer_unexpected(lexer, &path, "the name of a file in quotes");
    error = lexer_consume_end(lexer);
    if (error)
        return error;
    // Only the end of the text can have been read ahead; it comes again after the included text.
    lexer->held = 0;
    error = directive_file_name(lexer, &path, &name);
    if (error)
        return error;
    error = source_read(name, lexer_bytes_left(lexer), &source);
    if (error) {
        free(name);
        lexer_wrong(lexer, &path, "cannot read it: %s", strerror(-error));
        return error;
    }
    error = check_include(lexer, &path, &source);
    if (error) {
        free(name);
        free(source.text);
        return error;
    }
    return lexer_push_file(lexer, name, &source);
}
