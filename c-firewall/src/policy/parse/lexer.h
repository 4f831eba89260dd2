// SPDX-License-Identifier: GPL-2.0-or-later
// Lexer: converts text to tokens, and handles files with their includes, $NAME, comments and
// places. rules/policy/GRAMMAR.md, "Text", specifies all of these.
//
// Theory of operation: a stack of frames, each of which is a part of a text that is being read.
// `include` pushes a file. $NAME pushes the text of its `define`, which is read again at every use,
// so that tokens have the place of the definition and nothing is copied. Tokens refer to parts of
// the text. An error of the text itself (an unclosed string, an unknown $NAME, a limit) becomes a
// TOKEN_BAD, which is reported when the parser reaches it; so errors are reported in the order of
// the text.
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
    // Maximum number of tokens that are read ahead, apart from line ends that are blanks.
    LEXER_AHEAD = 2,
    // Number of bytes of blanks and comments in a define that count as one of POLICY_TOKENS_MAX
    // tokens.
    LEXER_BLANKS = 64,
    LEXER_FRAMES = POLICY_INCLUDE_DEPTH_MAX + POLICY_DEFINE_DEPTH_MAX,
};

/// Part of a text that is being read: a file, or the value of a define.
struct lexer_frame {
    const char *at, *end, *line_start;
    uint32_t file, line;
    bool is_define; // true for a define: line ends in it are blanks
};

/// File of a policy, and its text; a file of host names has no text here.
struct lexer_file {
    char *text;
    // Device and inode of the file; 0, 0 for a text in memory, and for a file of host names.
    uint64_t device, inode;
};

/// A `define`: the text of its value, as a frame that is not read yet, and its name.
struct lexer_define {
    struct token name;
    struct lexer_frame value;
};

struct lexer {
    struct failure *failure; // failure that functions of the lexer fill in
    uint32_t file_count;
    char **names;             // names of the files, as messages show them; file_count of them
    struct lexer_file *files; // files and their texts; file_count of them
    uint32_t room;            // capacity of names and files
    uint64_t bytes, tokens;
    uint32_t depth; // nesting depth of files and $NAME values: number of frames in use
    struct lexer_frame frames[LEXER_FRAMES];
    void *defines;   // definitions of `define`, as a tree (search.h)
    uint32_t braces; // greater than 0 if line ends are blanks (lexer_braces)
    bool line_ended; // true if the last token was a line end, or no token was read
    uint32_t held;   // number of tokens that were read ahead
    struct token ahead[LEXER_AHEAD + 2];
    bool bad;            // true if a TOKEN_BAD was read, after which nothing is read
    struct failure told; // error of the TOKEN_BAD
};

/// Opens a policy file, or a text in memory, which is copied; messages show `name` as its file
/// name. The complete text is checked first: size, UTF-8, no NUL.
/// - failure: filled in by this and every later call that fails; must outlive the lexer.
/// - Returns 0, or -EINVAL (-errno of reading, -ENOMEM) with failure filled in; lexer_close must be
///   called then, too.
int lexer_open_file(struct lexer *lexer, const char *path, struct failure *failure);
int lexer_open_text(struct lexer *lexer, const char *name, const uint8_t *text, size_t bytes,
                    struct failure *failure);

/// Frees everything, including all tokens' texts, and the names of the files unless
/// lexer_take_names has transferred them.
void lexer_close(struct lexer *lexer);

/// Transfers the names of the files to policy.files.
void lexer_take_names(struct lexer *lexer, struct policy *policy);

/// Returns the next token (`ahead` is 0) or the token after it (1), without consuming it. The
/// result is valid until the next call.
const struct token *lexer_peek(struct lexer *lexer, uint32_t ahead);

/// Consumes and returns the next token.
struct token lexer_consume(struct lexer *lexer);

/// Each consumes the next token if it is this sign or this word. Returns true if so.
bool lexer_consume_sign(struct lexer *lexer, enum token_sign sign);
bool lexer_consume_word(struct lexer *lexer, const char *word);

/// Begins (true) or ends (false) a part of a set in which line ends are blanks: next to its braces
/// and commas. Within the part, lexer_peek skips line ends.
void lexer_braces(struct lexer *lexer, bool enter);

/// Consumes a line end or `;`, or accepts the end of the text. Returns 0, or -EINVAL at another
/// token.
int lexer_consume_end(struct lexer *lexer);

/// Sets a failure at a place, with the text `FILE:LINE:COLUMN: TEXT`. TEXT is a printf format.
/// Returns -EINVAL.
int lexer_fail(struct lexer *lexer, struct policy_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Sets the failure `found "TOKEN", expected EXPECTED`; for a TOKEN_BAD, the stored error. Returns
/// -EINVAL.
int lexer_unexpected(struct lexer *lexer, const struct token *token, const char *expected);

/// Sets the failure `"TOKEN" is not supported here: HINT`; for a TOKEN_BAD, the stored error.
/// Returns -EINVAL.
int lexer_refuse(struct lexer *lexer, const struct token *token, const char *hint);

/// Sets the failure `"TOKEN": CAUSE`; for a TOKEN_BAD, the stored error. CAUSE is a printf format.
/// Returns -EINVAL.
int lexer_wrong(struct lexer *lexer, const struct token *token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Writes a place as "FILE:LINE:COLUMN" into a buffer, for messages with a second place. Returns
/// buffer.
const char *lexer_place_name(const struct lexer *lexer, struct policy_place place, char *buffer,
                             size_t bytes);

// The following functions serve `define` and `include` (policy/parse/directive).

/// Returns the frame that is being read: the innermost file or value of a define.
struct lexer_frame *lexer_top(struct lexer *lexer);

/// Returns the nesting depth of `$NAME` values or of included files at the current token.
/// - of_defines: true = values of `$NAME`; false = files, including the first.
uint32_t lexer_count_frames(const struct lexer *lexer, bool of_defines);

/// Scans one token of the file or `$NAME` value that is being read (the top frame). At its end,
/// returns a TOKEN_END_OF_TEXT.
struct token lexer_scan(struct lexer *lexer);

/// Returns the definition of a name, or NULL. A TOKEN_VARIABLE is searched without its `$`.
const struct lexer_define *lexer_find_define(const struct lexer *lexer, const struct token *name);

/// Writes the value of a $NAME within a string into text. Fails unless it is a single token that
/// value_text accepts.
/// - token: string with the $NAME; a failure has its place.
/// - name: name without the `$`.
/// - Returns 0 or -EINVAL.
int lexer_value_within(struct lexer *lexer, const struct token *token, const struct token *name,
                       char text[static POLICY_NAME_BYTES]);

/// Stores a new definition of `define`. Returns 0 or -ENOMEM.
int lexer_keep_define(struct lexer *lexer, const struct lexer_define *define);

/// Checks that a file's bytes are text, and pushes them as a frame. The lexer owns name and
/// source->text from now on, also after a failure.
/// - Returns 0, -EINVAL or -ENOMEM.
int lexer_push_file(struct lexer *lexer, char *name, const struct source *source);

/// Adds the name of a file of host names, whose text gives no tokens: messages can then name the
/// file, and reloads may read it. The lexer owns the name from now on. Returns 0 with the file's
/// index, or -ENOMEM with the failure set.
/// - bytes: size of the file, which counts toward the maximum size of a policy (lexer_bytes_left).
/// - file: out: the index.
int lexer_add_list(struct lexer *lexer, char *name, size_t bytes, uint32_t *file);

/// Returns the number of bytes that further files may have.
size_t lexer_bytes_left(const struct lexer *lexer);

/// Sets the failure that there is no memory. Returns -ENOMEM.
int lexer_fail_memory(struct lexer *lexer);

#endif
