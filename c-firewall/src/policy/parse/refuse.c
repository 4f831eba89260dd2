// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/refuse.h"

#include <string.h>

/// Returns true if a text is one of the words in `words`, which are separated by blanks.
static bool is_among(const char *words, const char *text, size_t length) {
    for (const char *word = words; *word;) {
        const size_t bytes = strcspn(word, " ");

        if (bytes == length && memcmp(word, text, length) == 0)
            return true;
        word += bytes + (word[bytes] == ' ');
    }
    return false;
}

/// Returns the hint for a token that nft accepts at this place and the language does not; NULL =
/// none.
static const char *find_hint(enum parse_where at, const struct token *token) {
    if (token->kind != TOKEN_WORD && token->kind != TOKEN_SIGN && token->kind != TOKEN_OTHER)
        return NULL;
    for (size_t i = 0; i < REFUSED_COUNT; i++)
        if (refused_words[i].at == at &&
            is_among(refused_words[i].words, token->text, token->length))
            return refused_words[i].hint;
    return NULL;
}

int parse_refuse_check(struct lexer *lexer, enum parse_where at, const struct token *token) {
    const char *hint = find_hint(at, token);

    return hint ? lexer_refuse(lexer, token, hint) : 0;
}

int parse_refuse_unexpected(struct lexer *lexer, enum parse_where at, const struct token *token,
                            const char *expected) {
    const char *hint = find_hint(at, token);

    return hint ? lexer_refuse(lexer, token, hint) : lexer_unexpected(lexer, token, expected);
}
