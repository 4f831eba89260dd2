// SPDX-License-Identifier: GPL-2.0-or-later
// Text to tokens: files with their includes, $NAME, comments, places. rules/policy/GRAMMAR.md,
// "Text", says what each is.
//
// Theory of operation: a stack of frames, each a piece of text being read. `include` puts a file on
// it; $NAME puts the text that its `define` stood for on it, which is read again at every use, so
// that tokens keep the place of the definition and nothing is copied. Tokens point into the text.
// What is wrong with the text itself (an unclosed string, an unknown $NAME, a limit) becomes a
// token TOKEN_BAD, told when the parser comes to it; so errors are told in the order of the text.
#ifndef POLICY_PARSE_LEXER_H
#define POLICY_PARSE_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "policy/parse/source.h"
#include "policy/policy.h"
#include "policy/token.h"

#define LEXER_TOO_LARGE "the policy is larger than 32 MiB with its includes"
#define LEXER_UNDEFINED "not defined before this"

enum {
    LEXER_AHEAD = 2,   // tokens that can be looked at in advance
    LEXER_BLANKS = 64, // bytes of blanks and comments in a define that count as a token
    LEXER_FRAMES = POLICY_INCLUDE_DEPTH_MAX + POLICY_DEFINE_DEPTH_MAX,
};

/// A piece of text being read.
struct lexer_frame {
    const char *at, *end, *line_start;
    uint32_t file, line;
    bool is_define; // line ends in it are blanks
};

/// A file that was read.
struct lexer_file {
    char *text;
    uint64_t device, inode; // 0, 0 = not a file
};

/// A `define`: its value, as a text still to be read, and its name.
struct lexer_define {
    struct token name;
    struct lexer_frame value;
};

struct lexer {
    struct failure *failure; // where errors go
    uint32_t file_count;
    char **names;             // of files, as in messages; file_count of them
    struct lexer_file *files; // likewise
    uint32_t room;            // of names and files
    uint64_t bytes, tokens;
    uint32_t depth; // frames
    struct lexer_frame frames[LEXER_FRAMES];
    void *defines;   // tree (search.h) of what `define` gave
    uint32_t braces; // lexer_braces
    bool line_ended; // the token read last was a line end
    uint32_t held;   // tokens in ahead, read and not yet taken
    struct token ahead[LEXER_AHEAD + 2];
    bool bad;            // a TOKEN_BAD was read: told says why, nothing more is read
    struct failure told; // by the TOKEN_BAD
};

/// Opens a policy file, or a text from memory (copied) that `name` stands for in messages. The text
/// is checked as a whole: size, UTF-8, no NUL.
/// - failure: filled in by this and every later call that fails; must live as long.
/// - Returns 0, or -EINVAL (-errno of reading, -ENOMEM) with failure filled in; lexer_close is then
///   not needed but harmless.
int lexer_open_file(struct lexer *lexer, const char *path, struct failure *failure);
int lexer_open_text(struct lexer *lexer, const char *name, const uint8_t *text, size_t bytes,
                    struct failure *failure);

/// Frees everything; tokens are void then. The names of the files go with it, unless they were
/// taken by lexer_take_names.
void lexer_close(struct lexer *lexer);

/// Hands the names of the files over, as policy.files.
void lexer_take_names(struct lexer *lexer, struct policy *policy);

/// The token after `ahead` others (0 or 1), without taking it. It stays valid until the next call.
const struct token *lexer_peek(struct lexer *lexer, uint32_t ahead);

/// Consumes a token.
struct token lexer_take(struct lexer *lexer);

/// Takes the next token if it is this sign (this word), else leaves it. Returns whether it took
/// one.
bool lexer_take_sign(struct lexer *lexer, enum token_sign sign);
bool lexer_take_word(struct lexer *lexer, const char *word);

/// Enters (true) or leaves (false) the braces of a set, in which line ends are blanks. To be called
/// when the brace is the token taken last.
void lexer_braces(struct lexer *lexer, bool enter);

/// Consumes a line end or `;`, or recognises the end of the text. Returns 0 or -EINVAL.
int lexer_take_end(struct lexer *lexer);

/// Fails at a place: "FILE:LINE:COLUMN: TEXT" from a printf format. Returns -EINVAL.
int lexer_fail(struct lexer *lexer, struct policy_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Fails with: found "TOKEN", expected WHAT; of a TOKEN_BAD with what is wrong with it. Returns
/// -EINVAL.
int lexer_unexpected(struct lexer *lexer, const struct token *token, const char *expected);

/// Fails with: "TOKEN" is not supported here: HINT. Returns -EINVAL.
int lexer_refuse(struct lexer *lexer, const struct token *token, const char *hint);

/// Fails with: "TOKEN": CAUSE, from a printf format. Returns -EINVAL.
int lexer_wrong(struct lexer *lexer, const struct token *token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// "FILE:LINE:COLUMN" of a place into a buffer, for messages that name a second one.
const char *lexer_place_name(const struct lexer *lexer, struct policy_place place, char *buffer,
                             size_t bytes);

// The functions below serve `define` and `include` (policy/parse/directive).

/// The frame that is being read.
struct lexer_frame *lexer_top(struct lexer *lexer);

/// How many frames are of defines, or of files.
uint32_t lexer_count_frames(const struct lexer *lexer, bool of_defines);

/// Scans one token of the frame on top; its end is a TOKEN_END_OF_TEXT.
struct token lexer_scan(struct lexer *lexer);

/// What is defined by a name, or NULL. A TOKEN_VARIABLE counts without its `$`.
const struct lexer_define *lexer_find_define(const struct lexer *lexer, const struct token *name);

/// Makes a define known. Returns 0 or -ENOMEM.
int lexer_keep_define(struct lexer *lexer, const struct lexer_define *define);

/// Makes a file's text the next to be read, after a check that it is text. Owns name and
/// source->text from then on, even if it fails.
/// - Returns 0, -EINVAL or -ENOMEM.
int lexer_push_file(struct lexer *lexer, char *name, const struct source *source);

/// Adds a file whose text is not the policy's, for messages and reloads; its name is taken over.
/// Returns 0 with its number, or -ENOMEM with the failure told.
int lexer_add_list(struct lexer *lexer, char *name, size_t bytes, uint32_t *file);

/// Bytes that further files may have.
size_t lexer_bytes_left(const struct lexer *lexer);

/// Fails because there is no memory. Returns -ENOMEM.
int lexer_fail_memory(struct lexer *lexer);

#endif
