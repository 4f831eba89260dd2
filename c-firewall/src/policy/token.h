// SPDX-License-Identifier: GPL-2.0-or-later
// One token at the start of a text: what it is and how long. Pure; places, files and $NAME are the
// lexer's. rules/policy/GRAMMAR.md, "Text".
#ifndef POLICY_TOKEN_H
#define POLICY_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

enum {
    TOKEN_QUOTE_BYTES = 64, // of a token that an error shows; then comes "..."
    TOKEN_QUOTED_BYTES = TOKEN_QUOTE_BYTES * 4 + 6, // each byte as \xNN, quotes, "...", NUL
};

enum token_kind {
    TOKEN_END_OF_TEXT, // comes again when taken
    TOKEN_LINE_END,    // one for any number of line ends in a row, with blanks and comments between
    TOKEN_SEMICOLON,
    TOKEN_WORD, // a letter, then letters, digits, _ - . / (so `mbytes/second` is one, as in nft)
    TOKEN_WILDCARD, // a word with a * in it: eth*
    TOKEN_NUMBER,   // decimal or hexadecimal, up to 2^64 - 1
    TOKEN_IPV4,     // digits and dots, at least one dot; not checked further
    TOKEN_IPV6,     // hexadecimal digits, at least two colons, dotted end; not checked further
    TOKEN_STRING,   // text is what stands between the quotes
    TOKEN_SIGN,     // sign holds it
    TOKEN_OTHER,    // anything else, such as 80tcp, or é
    TOKEN_VARIABLE, // $NAME; never given out
    TOKEN_BAD,      // what is wrong is told by lexer_unexpected, lexer_refuse, lexer_wrong
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
    enum token_sign sign; // of TOKEN_SIGN, else SIGN_NONE
    uint32_t length;      // bytes at text
    const char *text;     // not NUL-terminated; lives until lexer_close
    uint64_t number;      // of TOKEN_NUMBER
    struct policy_place place;
};

/// Whether the token is this word.
bool token_is(const struct token *token, const char *word);

/// Whether a word is one of the language's (or of nft's), so that it can't be a name.
bool token_is_reserved(const char *text, size_t length);

/// A text in quotes: at most TOKEN_QUOTE_BYTES of it with everything unprintable, '"' and '\' as
/// \xNN, then "..." if there was more. Returns quoted.
const char *token_quote(const char *text, size_t length, char quoted[static TOKEN_QUOTED_BYTES]);

/// Kind of the token at the start of a text.
struct token_scanned {
    enum token_kind kind;
    enum token_sign sign;
    size_t length; // bytes, with the quotes of a string
    uint64_t number;
    const char *cause; // why it is no good, or NULL
};

/// Scans the token at the start of a text (up to end) without blanks before it; at its end a
/// TOKEN_END_OF_TEXT.
struct token_scanned token_scan(const char *text, const char *end);

#endif
