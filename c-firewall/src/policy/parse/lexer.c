// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/lexer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/source.h"

enum {
    FILES_FIRST = 4, // initial capacity for files
};

/// Removes the incomplete character that vsnprintf may have left at the end of a cut text.
static void cut_to_characters(char *text, size_t written, size_t room) {
    size_t end = room - 1;

    if (written < room)
        return;
    while (end > 0 && ((unsigned char)text[end - 1] & 0xc0) == 0x80)
        end--;
    // text[end - 1] begins the last character, which is complete if it is followed by the number of
    // bytes that it requires.
    if (end > 0 && (unsigned char)text[end - 1] >= 0xc0) {
        const unsigned char lead = (unsigned char)text[end - 1];
        const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

        if (end - 1 + bytes > room - 1)
            text[end - 1] = '\0';
    }
}

static int fail_text(struct failure *failure, const char *format, va_list arguments) {
    const int written = vsnprintf(failure->text, sizeof failure->text, format, arguments);

    failure->code = LOG_EXIT_USAGE;
    cut_to_characters(failure->text, (size_t)written, sizeof failure->text);
    return -EINVAL;
}

static int __attribute__((format(printf, 2, 3)))
fail(struct failure *failure, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    fail_text(failure, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

int lexer_fail_memory(struct lexer *lexer) {
    failure_set(lexer->failure, LOG_EXIT_CALL, "not enough memory for the policy");
    return -ENOMEM;
}

/// Makes room for another file. Returns 0 or -ENOMEM.
static int grow_files(struct lexer *lexer) {
    const uint32_t room = lexer->room ? 2 * lexer->room : FILES_FIRST;
    struct lexer_file *files;
    char **names;

    if (lexer->file_count < lexer->room)
        return 0;
    names = realloc(lexer->names, room * sizeof *names);
    if (!names)
        return lexer_fail_memory(lexer);
    lexer->names = names;
    files = realloc(lexer->files, room * sizeof *files);
    if (!files)
        return lexer_fail_memory(lexer);
    lexer->files = files;
    lexer->room = room;
    return 0;
}

int lexer_push_file(struct lexer *lexer, char *name, const struct source *source) {
    const uint32_t file = lexer->file_count;
    const int error = grow_files(lexer);
    size_t valid;

    if (error) {
        free(name);
        free(source->text);
        return error;
    }
    lexer->names[file] = name;
    lexer->files[file] =
        (struct lexer_file){.text = source->text, .device = source->device, .inode = source->inode};
    lexer->file_count++;
    lexer->bytes += source->bytes;
    valid = source_check((const uint8_t *)source->text, source->bytes);
    if (valid < source->bytes) {
        const struct policy_place place = source_place(file, source->text, valid);

        if (source->text[valid] == '\0')
            return lexer_fail(lexer, place, "a NUL byte: this is not a text");
        return lexer_fail(lexer, place, "byte 0x%02x is not UTF-8",
                          (unsigned char)source->text[valid]);
    }
    lexer->frames[lexer->depth++] = (struct lexer_frame){.at = source->text,
                                                         .end = source->text + source->bytes,
                                                         .line_start = source->text,
                                                         .file = file,
                                                         .line = 1};
    return 0;
}

static void open_empty(struct lexer *lexer, struct failure *failure) {
    *lexer = (struct lexer){.failure = failure, .line_ended = true};
}

int lexer_add_list(struct lexer *lexer, char *name, size_t bytes, uint32_t *file) {
    const int error = grow_files(lexer);

    if (error) {
        free(name);
        return error;
    }
    *file = lexer->file_count;
    lexer->names[lexer->file_count] = name;
    lexer->files[lexer->file_count++] = (struct lexer_file){0};
    lexer->bytes += bytes;
    return 0;
}

size_t lexer_bytes_left(const struct lexer *lexer) { return POLICY_TEXT_MAX - lexer->bytes; }

int lexer_open_file(struct lexer *lexer, const char *path, struct failure *failure) {
    struct source source;
    char *name;
    int error;

    open_empty(lexer, failure);
    error = source_read(path, POLICY_TEXT_MAX, &source);
    if (error) {
        fail(failure, "%s: cannot read the policy: %s", path, strerror(-error));
        return error;
    }
    if (source.bytes > POLICY_TEXT_MAX) {
        free(source.text);
        return fail(failure, "%s: " LEXER_TOO_LARGE, path);
    }
    name = strdup(path);
    if (!name) {
        free(source.text);
        return lexer_fail_memory(lexer);
    }
    return lexer_push_file(lexer, name, &source);
}

int lexer_open_text(struct lexer *lexer, const char *name, const uint8_t *text, size_t bytes,
                    struct failure *failure) {
    struct source source = {.bytes = bytes};
    char *copied;

    open_empty(lexer, failure);
    if (bytes > POLICY_TEXT_MAX)
        return fail(failure, "%s: " LEXER_TOO_LARGE, name);
    copied = strdup(name);
    source.text = malloc(bytes + 1); // + 1, so that malloc does not return NULL for an empty text
    if (!copied || !source.text) {
        free(copied);
        free(source.text);
        return lexer_fail_memory(lexer);
    }
    if (bytes > 0)
        memcpy(source.text, text, bytes);
    return lexer_push_file(lexer, copied, &source);
}

void lexer_close(struct lexer *lexer) {
    for (uint32_t i = 0; i < lexer->file_count; i++) {
        if (lexer->names)
            free(lexer->names[i]);
        free(lexer->files[i].text);
    }
    free(lexer->names);
    free(lexer->files);
    tdestroy(lexer->defines, free);
    *lexer = (struct lexer){0};
}

void lexer_take_names(struct lexer *lexer, struct policy *policy) {
    policy->files = lexer->names;
    policy->file_count = lexer->file_count;
    lexer->names = NULL;
}

struct lexer_frame *lexer_top(struct lexer *lexer) {
    return &lexer->frames[lexer->depth - 1];
}

uint32_t lexer_count_frames(const struct lexer *lexer, bool of_defines) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < lexer->depth; i++)
        count += lexer->frames[i].is_define == of_defines;
    return count;
}

/// Returns a token as TOKEN_BAD, and stores its error. No token is read after it.
static struct token __attribute__((format(printf, 3, 4)))
bad(struct lexer *lexer, const struct token *token, const char *format, ...) {
    struct failure *const failure = lexer->failure;
    char cause[LOG_TEXT_BYTES];
    struct token marked = *token;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(cause, sizeof cause, format, arguments);
    va_end(arguments);
    lexer->failure = &lexer->told;
    lexer_wrong(lexer, token, "%s", cause);
    lexer->failure = failure;
    lexer->bad = true;
    marked.kind = TOKEN_BAD;
    return marked;
}

/// Skips blanks, comments, line ends after `\`, and in a define all line ends.
static void skip_blanks(struct lexer_frame *frame) {
    while (frame->at < frame->end) {
        const char *at = frame->at;
        const size_t left = (size_t)(frame->end - at);
        size_t joined = 0;

        if (*at == ' ' || *at == '\t' || *at == '\r') {
            frame->at++;
            continue;
        }
        if (*at == '#') {
            const char *line_end = memchr(at, '\n', left);

            frame->at = line_end ? line_end : frame->end;
            continue;
        }
        if (*at == '\n' && frame->is_define)
            joined = 1;
        else if (left >= 2 && at[0] == '\\' && at[1] == '\n')
            joined = 2;
        else if (left >= 3 && at[0] == '\\' && at[1] == '\r' && at[2] == '\n')
            joined = 3;
        if (joined == 0)
            return;
        frame->at += joined;
        frame->line++;
        frame->line_start = frame->at;
    }
}

/// Scans one token of a file or `$NAME` value (a frame). At its end, returns a TOKEN_END_OF_TEXT.
static struct token scan_frame(struct lexer *lexer, struct lexer_frame *frame) {
    struct token_scanned found;
    struct token token;

    skip_blanks(frame);
    found = token_scan(frame->at, frame->end);
    token = (struct token){
        .kind = found.kind,
        .sign = found.sign,
        .length = (uint32_t)found.length,
        .text = frame->at,
        .number = found.number,
        .place = {.file = frame->file,
                  .line = frame->line,
                  .column = (uint32_t)(frame->at - frame->line_start) + 1},
    };
    frame->at += found.length;
    if (found.kind == TOKEN_LINE_END) {
        frame->line++;
        frame->line_start = frame->at;
    }
    if (found.length > 0 && *token.text == '"') {
        const bool closed = found.length > 1 && frame->at[-1] == '"';

        token.text++;
        token.length -= closed ? 2 : 1;
    }
    return found.cause ? bad(lexer, &token, "%s", found.cause) : token;
}

struct token lexer_scan(struct lexer *lexer) {
    return scan_frame(lexer, lexer_top(lexer));
}

static int compare_defines(const void *a, const void *b) {
    const struct token *one = &((const struct lexer_define *)a)->name;
    const struct token *other = &((const struct lexer_define *)b)->name;

    if (one->length != other->length)
        return one->length < other->length ? -1 : 1;
    return memcmp(one->text, other->text, one->length);
}

const struct lexer_define *lexer_find_define(const struct lexer *lexer, const struct token *name) {
    struct lexer_define wanted = {.name = *name};
    void *found;

    if (name->kind == TOKEN_VARIABLE) {
        wanted.name.text++;
        wanted.name.length--;
    }
    found = tfind(&wanted, &lexer->defines, compare_defines);
    return found ? *(const struct lexer_define *const *)found : NULL;
}

int lexer_keep_define(struct lexer *lexer, const struct lexer_define *define) {
    struct lexer_define *kept = malloc(sizeof *kept);

    if (!kept)
        return lexer_fail_memory(lexer);
    *kept = *define;
    if (!tsearch(kept, &lexer->defines, compare_defines)) {
        free(kept);
        return lexer_fail_memory(lexer);
    }
    return 0;
}

/// Pushes the text of a $NAME as a frame. Returns false and changes token to TOKEN_BAD if the name
/// is undefined or nested too deeply.
static bool push_define(struct lexer *lexer, struct token *token) {
    const struct lexer_define *define = lexer_find_define(lexer, token);

    if (!define) {
        *token = bad(lexer, token, LEXER_UNDEFINED);
        return false;
    }
    if (lexer_count_frames(lexer, true) >= POLICY_DEFINE_DEPTH_MAX) {
        *token = bad(lexer, token, "more than %d $NAME in one another", POLICY_DEFINE_DEPTH_MAX);
        return false;
    }
    lexer->frames[lexer->depth++] = define->value;
    return true;
}

/// Counts a token, and the blanks before a token of a define. Returns false if there are too many
/// tokens.
/// - before: start of these blanks.
static bool count_token(struct lexer *lexer, const struct token *token, bool in_define,
                        const char *before) {
    const char *start = token->text - (token->kind == TOKEN_STRING);

    lexer->tokens += 1 + (in_define ? (uint64_t)(start - before) / LEXER_BLANKS : 0);
    return lexer->tokens <= POLICY_TOKENS_MAX;
}

/// Writes the text that a define's token has within a string: of a word, number, address, wildcard
/// or text in quotes. Returns false for a reserved word, a text that is empty or contains `$`, and
/// other tokens.
static bool value_text(const struct token *token, char text[static POLICY_NAME_BYTES]) {
    const size_t length = token->length;
    bool fits = true;

    switch (token->kind) {
    case TOKEN_NUMBER:
        snprintf(text, POLICY_NAME_BYTES, "%" PRIu64, token->number);
        return true;
    case TOKEN_WORD:
        fits = !token_is_reserved(token->text, length);
        break;
    case TOKEN_STRING:
        fits = length > 0 && !memchr(token->text, '$', length);
        break;
    case TOKEN_IPV4:
    case TOKEN_IPV6:
    case TOKEN_WILDCARD:
        break;
    default:
        fits = false;
    }
    if (fits)
        snprintf(text, POLICY_NAME_BYTES, "%.*s", (int)length, token->text);
    return fits;
}

int lexer_value_within(struct lexer *lexer, const struct token *token, const struct token *name,
                       char text[static POLICY_NAME_BYTES]) {
    const struct lexer_define *define = lexer_find_define(lexer, name);
    const int length = (int)name->length;
    struct lexer_frame frame;
    struct token value, end;
    const char *before, *behind;

    if (!define)
        return lexer_wrong(lexer, token, "$%.*s is " LEXER_UNDEFINED, length, name->text);
    frame = define->value;
    before = frame.at;
    value = scan_frame(lexer, &frame);
    behind = frame.at;
    end = scan_frame(lexer, &frame);
    if (!count_token(lexer, &value, true, before) || !count_token(lexer, &end, true, behind))
        return lexer_wrong(lexer, token, "more than %d tokens when $NAME is replaced",
                           POLICY_TOKENS_MAX);
    if (!value_text(&value, text) || end.kind != TOKEN_END_OF_TEXT)
        return lexer_wrong(lexer, token,
                           "$%.*s has no text for a prefix: define it as a text in quotes", length,
                           name->text);
    return 0;
}

/// Reads the next token. Goes into the value of a $NAME (pushes a frame), and back out at the end
/// of a value or included file.
static struct token read_token(struct lexer *lexer) {
    while (!lexer->bad) {
        const bool in_define = lexer_top(lexer)->is_define;
        const char *before = lexer_top(lexer)->at;
        struct token token = lexer_scan(lexer);

        switch (token.kind) {
        case TOKEN_BAD:
            return token;
        case TOKEN_END_OF_TEXT:
            if (!in_define && lexer->depth == 1)
                return token;
            if (in_define || lexer->line_ended) {
                lexer->depth--;
                continue;
            }
            lexer->line_ended = true;
            token.kind = TOKEN_LINE_END;
            return token;
        case TOKEN_VARIABLE:
            if (!push_define(lexer, &token))
                return token;
            continue;
        case TOKEN_LINE_END:
            if (lexer->line_ended)
                continue;
            break;
        default:
            break;
        }
        if (!count_token(lexer, &token, in_define, before))
            return bad(lexer, &token, "more than %d tokens when $NAME is replaced",
                       POLICY_TOKENS_MAX);
        lexer->line_ended = token.kind == TOKEN_LINE_END;
        return token;
    }
    return (struct token){.kind = TOKEN_BAD, .text = ""};
}

static void drop_first(struct lexer *lexer) {
    lexer->held--;
    memmove(lexer->ahead, lexer->ahead + 1, lexer->held * sizeof *lexer->ahead);
}

const struct token *lexer_peek(struct lexer *lexer, uint32_t ahead) {
    uint32_t index = 0, wanted = ahead;

    assert(ahead < LEXER_AHEAD);
    for (;;) {
        const struct token *token = &lexer->ahead[index];
        bool blank;

        if (index == lexer->held) {
            lexer->ahead[index] = read_token(lexer);
            lexer->held++;
        }
        blank = lexer->braces > 0 && token->kind == TOKEN_LINE_END;
        if (blank && index == 0) {
            drop_first(lexer);
        } else if (blank) {
            index++;
        } else if (wanted == 0) {
            return token;
        } else {
            wanted--;
            index++;
        }
    }
}

struct token lexer_consume(struct lexer *lexer) {
    const struct token token = *lexer_peek(lexer, 0);

    drop_first(lexer);
    return token;
}

bool lexer_consume_sign(struct lexer *lexer, enum token_sign sign) {
    const bool found = lexer_peek(lexer, 0)->sign == sign;

    if (found)
        lexer_consume(lexer);
    return found;
}

bool lexer_consume_word(struct lexer *lexer, const char *word) {
    const bool found = token_is(lexer_peek(lexer, 0), word);

    if (found)
        lexer_consume(lexer);
    return found;
}

void lexer_braces(struct lexer *lexer, bool enter) {
    if (enter)
        lexer->braces++;
    else
        lexer->braces--;
}

int lexer_consume_end(struct lexer *lexer) {
    const struct token *token = lexer_peek(lexer, 0);

    if (token->kind == TOKEN_LINE_END || token->kind == TOKEN_SEMICOLON) {
        lexer_consume(lexer);
        return 0;
    }
    if (token->kind == TOKEN_END_OF_TEXT)
        return 0;
    return lexer_unexpected(lexer, token, "the end of the line or \";\"");
}

static int fail_at(struct lexer *lexer, struct policy_place place, const char *format,
                   va_list arguments) {
    char text[LOG_TEXT_BYTES];

    vsnprintf(text, sizeof text, format, arguments);
    return fail(lexer->failure, "%s:%" PRIu32 ":%" PRIu32 ": %s", lexer->names[place.file],
                place.line, place.column, text);
}

int lexer_fail(struct lexer *lexer, struct policy_place place, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    fail_at(lexer, place, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/// Returns a token as error texts show it: in quotes, or as "end of line" or "end of text".
static const char *quote(const struct token *token, char quoted[static TOKEN_QUOTED_BYTES]) {
    switch (token->kind) {
    case TOKEN_END_OF_TEXT:
        return "end of text";
    case TOKEN_LINE_END:
        return "end of line";
    default:
        return token_quote(token->text, token->length, quoted);
    }
}

/// Sets the failure to lexer->told if the token is a TOKEN_BAD. Returns true if it is.
static bool fail_bad(struct lexer *lexer, const struct token *token) {
    if (token->kind != TOKEN_BAD)
        return false;
    *lexer->failure = lexer->told;
    return true;
}

int lexer_unexpected(struct lexer *lexer, const struct token *token, const char *expected) {
    char quoted[TOKEN_QUOTED_BYTES];

    if (fail_bad(lexer, token))
        return -EINVAL;
    return lexer_fail(lexer, token->place, "found %s, expected %s", quote(token, quoted), expected);
}

int lexer_refuse(struct lexer *lexer, const struct token *token, const char *hint) {
    char quoted[TOKEN_QUOTED_BYTES];

    if (fail_bad(lexer, token))
        return -EINVAL;
    return lexer_fail(lexer, token->place, "%s is not supported here: %s", quote(token, quoted),
                      hint);
}

int lexer_wrong(struct lexer *lexer, const struct token *token, const char *format, ...) {
    char quoted[TOKEN_QUOTED_BYTES];
    char cause[LOG_TEXT_BYTES];
    va_list arguments;

    if (fail_bad(lexer, token))
        return -EINVAL;
    va_start(arguments, format);
    vsnprintf(cause, sizeof cause, format, arguments);
    va_end(arguments);
    return lexer_fail(lexer, token->place, "%s: %s", quote(token, quoted), cause);
}

const char *lexer_place_name(const struct lexer *lexer, struct policy_place place, char *buffer,
                             size_t bytes) {
    snprintf(buffer, bytes, "%s:%" PRIu32 ":%" PRIu32, lexer->names[place.file], place.line,
             place.column);
    return buffer;
}
