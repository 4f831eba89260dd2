// SPDX-License-Identifier: GPL-2.0-or-later
// Scanner: finds the token at the start of a text. The lexer handles places, files and $NAME.
// rules/policy/GRAMMAR.md, "Text".
#ifndef POLICY_TOKEN_H
#define POLICY_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

enum {
    TOKEN_QUOTE_BYTES = 64, // maximum number of bytes of a token that an error shows, before "..."
    // Maximum size of a quoted text: each byte as \xNN, the quotes, "...", NUL.
    TOKEN_QUOTED_BYTES = TOKEN_QUOTE_BYTES * 4 + 6,
};

enum token_kind {
    // End of the text. Consuming it has no effect: it stays the next token.
    TOKEN_END_OF_TEXT,
    TOKEN_LINE_END, // one or more line ends, with blanks and comments between them
    TOKEN_SEMICOLON,
    // A letter, _ or ., then letters, digits, _ - . / (so `mbytes/second` is one word, as in nft).
    TOKEN_WORD,
    TOKEN_WILDCARD, // a word with a *: eth*
    TOKEN_NUMBER,   // decimal or hexadecimal number, up to 2^64 - 1
    TOKEN_IPV4,     // digits and dots, at least one dot; not checked further
    // Hexadecimal digits and at least two colons, perhaps with a dotted end; not checked further.
    TOKEN_IPV6,
    TOKEN_STRING, // text in quotes; the token's text is the part between the quotes
    TOKEN_SIGN,   // sign such as { or ==; token.sign has its kind
    TOKEN_OTHER,  // any other text, such as 80tcp, or é
    // $NAME. lexer_peek and lexer_consume return the tokens of its definition in its place.
    TOKEN_VARIABLE,
    // Invalid text. lexer_unexpected, lexer_refuse and lexer_wrong report its error in place of
    // their own.
    TOKEN_BAD,
};

enum token_sign {
    SIGN_NONE,
    SIGN_BRACE_OPEN,
    SIGN_BRACE_CLOSE,
    SIGN_ROUND_OPEN,
    SIGN_ROUND_CLOSE,
    SIGN_COMMA,
    SIGN_COLON,
    SIGN_DOT,
    SIGN_ASSIGN,
    SIGN_EQ, // ==
    SIGN_NE, // !=
    SIGN_LT,
    SIGN_GT,
    SIGN_LE, // <=
    SIGN_GE, // >=
    SIGN_AND,
    SIGN_OR,
    SIGN_XOR,
    SIGN_SLASH,
    SIGN_MINUS,
    SIGN_PLUS,
    SIGN_AT,
};

struct token {
    enum token_kind kind;
    enum token_sign sign; // kind of sign, for TOKEN_SIGN; else SIGN_NONE
    uint32_t length;      // length of text in bytes
    const char *text;     // text of the token, not NUL-terminated; valid until lexer_close
    uint64_t number;      // value of a TOKEN_NUMBER; else 0
    struct policy_place place;
};

/// Returns true if the token is this word.
bool token_is(const struct token *token, const char *word);

/// Returns true if a word is reserved by the language (or by nft), so that it can't be a name.
bool token_is_reserved(const char *text, size_t length);

/// Writes a text in quotes: at most TOKEN_QUOTE_BYTES of it, with unprintable characters, '"' and
/// '\' as \xNN, and "..." if the text was cut. Returns quoted.
const char *token_quote(const char *text, size_t length, char quoted[static TOKEN_QUOTED_BYTES]);

/// Token at the start of a text.
struct token_scanned {
    enum token_kind kind;
    enum token_sign sign;
    size_t length; // length in bytes, with the quotes of a string
    uint64_t number;
    const char *cause; // error of an invalid token; else NULL
};

/// Returns the token at the start of a text (up to end); TOKEN_END_OF_TEXT if the text is empty.
/// The text must not begin with blanks.
struct token_scanned token_scan(const char *text, const char *end);

#endif
