// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lines.h"
#include "policy/parse/directive.h"
#include "test.h"
#include "vectors.h"

enum {
    FOLDER_BYTES = 64,
    FILES_MAX = 20, // maximum number of files in a test's folder
};

static const char *const kinds[] = {
    [TOKEN_END_OF_TEXT] = "end-of-text",
    [TOKEN_LINE_END] = "end-of-line",
    [TOKEN_SEMICOLON] = "semicolon",
    [TOKEN_WORD] = "word",
    [TOKEN_WILDCARD] = "wildcard",
    [TOKEN_NUMBER] = "number",
    [TOKEN_IPV4] = "ipv4",
    [TOKEN_IPV6] = "ipv6",
    [TOKEN_STRING] = "string",
    [TOKEN_SIGN] = "sign",
    [TOKEN_OTHER] = "other",
    [TOKEN_VARIABLE] = "variable",
    [TOKEN_BAD] = "bad",
};

/// Reader of a text in memory. It reads tokens like the parser, and prints each of them in the
/// format of the vectors.
struct reader {
    struct lexer lexer;
    struct failure failure;
    bool braces;
    bool failed;
};

static void reader_open(struct reader *reader, const char *text, size_t bytes, bool braces) {
    *reader = (struct reader){.braces = braces};
    reader->failed =
        lexer_open_text(&reader->lexer, "t", (const uint8_t *)text, bytes, &reader->failure) != 0;
}

static void reader_error(const struct reader *reader, char line[static LINE_BYTES]) {
    snprintf(line, LINE_BYTES, "error %s", reader->failure.text);
}

/// Prints the next token or the error as a line. Returns true if more may follow.
static bool reader_next(struct reader *reader, char line[static LINE_BYTES]) {
    struct token token;
    char number[32] = "";

    if (reader->failed) {
        reader_error(reader, line);
        return false;
    }
    while (token_is(lexer_peek(&reader->lexer, 0), "define")) {
        lexer_consume(&reader->lexer);
        if (directive_define(&reader->lexer) != 0) {
            reader_error(reader, line);
            return false;
        }
    }
    token = lexer_consume(&reader->lexer);
    if (token.kind == TOKEN_BAD) {
        lexer_unexpected(&reader->lexer, &token, "");
        reader_error(reader, line);
        return false;
    }
    if (reader->braces && token.sign == SIGN_BRACE_OPEN)
        lexer_braces(&reader->lexer, true);
    if (reader->braces && token.sign == SIGN_BRACE_CLOSE)
        lexer_braces(&reader->lexer, false);
    if (token.kind == TOKEN_NUMBER)
        snprintf(number, sizeof number, "%llu", (unsigned long long)token.number);
    snprintf(line, LINE_BYTES, "%u:%u %s %.*s", token.place.line, token.place.column,
             kinds[token.kind], token.kind == TOKEN_LINE_END ? 0 : (int)token.length, token.text);
    if (*number)
        snprintf(line, LINE_BYTES, "%u:%u number %s", token.place.line, token.place.column, number);
    if (line[strlen(line) - 1] == ' ')
        line[strlen(line) - 1] = '\0';
    return token.kind != TOKEN_END_OF_TEXT;
}

static void tokens_are_those_of_the_vectors(void **state) {
    FILE *file = vectors_open("tokens.txt");
    char line[LINE_BYTES], text[LINE_BYTES] = "", read[LINE_BYTES];
    struct reader reader = {0};
    bool more = false, opened = false, braces = false;
    size_t bytes = 0;
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        if (!*line) {
            if (more)
                fail_msg("%s: more was read", text);
            if (opened)
                lexer_close(&reader.lexer);
            opened = braces = false;
        } else if (strncmp(line, "text", 4) == 0) {
            snprintf(text, sizeof text, "%s", line[4] ? line + 5 : "");
            bytes = lines_unescape(text);
            count++;
        } else if (strcmp(line, "braces") == 0) {
            braces = true;
        } else {
            if (!opened)
                reader_open(&reader, text, bytes, braces);
            opened = true;
            more = reader_next(&reader, read);
            if (strncmp(line, "error", 5) != 0)
                lines_unescape(line);
            if (strcmp(read, line) != 0)
                fail_msg("%s\n  read:     %s\n  expected: %s", text, read, line);
        }
    }
    if (opened)
        lexer_close(&reader.lexer);
    fclose(file);
    assert_in_range(count, 40, 1000);
}

/// Reads a text to its end, and counts its tokens. Returns NULL, or the failure's text.
static const char *read_all(struct lexer *lexer, struct failure *failure, uint32_t *count) {
    for (*count = 0;; ++*count) {
        const struct token token = lexer_consume(lexer);

        if (token.kind == TOKEN_BAD)
            lexer_unexpected(lexer, &token, "");
        if (token.kind == TOKEN_BAD || (token_is(&token, "define") && directive_define(lexer)) ||
            (token_is(&token, "include") && directive_include(lexer)))
            return failure->text;
        if (token.kind == TOKEN_END_OF_TEXT)
            return NULL;
    }
}

static void two_tokens_can_be_looked_at(void **state) {
    static const char text[] = "a\n{\n1\n\n:\n2\n}\nb";
    struct failure failure;
    struct lexer lexer;

    (void)state;
    assert_int_equal(lexer_open_text(&lexer, "t", (const uint8_t *)text, sizeof text - 1, &failure),
                     0);
    assert_true(token_is(lexer_peek(&lexer, 0), "a"));
    assert_int_equal(lexer_peek(&lexer, 1)->kind, TOKEN_LINE_END);
    assert_true(lexer_consume_word(&lexer, "a"));
    assert_false(lexer_consume_sign(&lexer, SIGN_BRACE_OPEN));
    assert_int_equal(lexer_consume_end(&lexer), 0);
    assert_int_equal(lexer_peek(&lexer, 1)->kind, TOKEN_LINE_END);
    assert_true(lexer_consume_sign(&lexer, SIGN_BRACE_OPEN));
    lexer_braces(&lexer, true);
    assert_int_equal(lexer_peek(&lexer, 1)->sign, SIGN_COLON);
    assert_int_equal(lexer_peek(&lexer, 0)->kind, TOKEN_NUMBER);
    lexer_consume(&lexer);
    lexer_consume(&lexer);
    lexer_consume(&lexer);
    assert_true(token_is(lexer_peek(&lexer, 1), "b"));
    assert_true(lexer_consume_sign(&lexer, SIGN_BRACE_CLOSE));
    lexer_braces(&lexer, false);
    assert_int_equal(lexer_peek(&lexer, 0)->kind, TOKEN_LINE_END);
    assert_true(token_is(lexer_peek(&lexer, 1), "b"));
    assert_int_equal(lexer_consume_end(&lexer), 0);
    assert_int_equal(lexer_consume_end(&lexer), -EINVAL);
    assert_string_equal(failure.text, "t:8:1: found \"b\", expected the end of the line or \";\"");
    assert_true(lexer_consume_word(&lexer, "b"));
    assert_int_equal(lexer_consume_end(&lexer), 0);
    assert_int_equal(lexer_consume(&lexer).kind, TOKEN_END_OF_TEXT);
    assert_int_equal(lexer_consume(&lexer).kind, TOKEN_END_OF_TEXT);
    lexer_close(&lexer);
}

static void messages_have_their_forms(void **state) {
    static const char text[] = "dnat \"a\\\xc3\xa9\" x\n";
    struct failure failure;
    struct lexer lexer;
    struct token token;

    (void)state;
    assert_int_equal(lexer_open_text(&lexer, "t", (const uint8_t *)text, sizeof text - 1, &failure),
                     0);
    token = lexer_consume(&lexer);
    assert_int_equal(lexer_refuse(&lexer, &token, "leave it to the kernel"), -EINVAL);
    assert_int_equal(failure.code, LOG_EXIT_USAGE);
    assert_string_equal(failure.text,
                        "t:1:1: \"dnat\" is not supported here: leave it to the kernel");
    token = lexer_consume(&lexer);
    lexer_wrong(&lexer, &token, "it is %d", 5);
    assert_string_equal(failure.text, "t:1:6: \"a\\x5c\\xc3\\xa9\": it is 5");
    token = lexer_consume(&lexer);
    lexer_fail(&lexer, token.place, "a loop of %s", "chains");
    assert_string_equal(failure.text, "t:1:13: a loop of chains");
    token = lexer_consume(&lexer);
    lexer_unexpected(&lexer, &token, "a verdict");
    assert_string_equal(failure.text, "t:1:14: found end of line, expected a verdict");
    token = lexer_consume(&lexer);
    lexer_unexpected(&lexer, &token, "a verdict");
    assert_string_equal(failure.text, "t:2:1: found end of text, expected a verdict");
    lexer_close(&lexer);
}

/// Tests that a message that is too long is cut at the end of a character, at the same place as in
/// the Rust twin.
static void a_long_message_is_cut_between_characters(void **state) {
    char name[LOG_TEXT_BYTES + 8] = "";
    struct failure failure;
    struct lexer lexer;

    (void)state;
    for (int i = 0; i < LOG_TEXT_BYTES / 2; i++)
        strcat(name, "\xc3\xa9");
    assert_int_equal(lexer_open_text(&lexer, name, (const uint8_t *)"\xff", 1, &failure), -EINVAL);
    assert_int_equal(strlen(failure.text), LOG_TEXT_BYTES - 2);
    lexer_close(&lexer);
}

/// A temporary folder of files, which is removed at the end.
struct folder {
    char path[FOLDER_BYTES];
    char *files[FILES_MAX];
    uint32_t count;
};

static void folder_make(struct folder *folder) {
    *folder = (struct folder){.path = "/tmp/lexer-XXXXXX"};
    assert_non_null(mkdtemp(folder->path));
}

/// Adds a path in the folder to the list of files that are removed with the folder; does not create
/// a file. Returns the path.
static const char *folder_path(struct folder *folder, const char *name) {
    char **path = &folder->files[folder->count++];

    assert_true(asprintf(path, "%s/%s", folder->path, name) > 0);
    return *path;
}

static const char *folder_add(struct folder *folder, const char *name, const char *text) {
    const char *path = folder_path(folder, name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void folder_remove(struct folder *folder) {
    while (folder->count > 0) {
        remove(folder->files[--folder->count]);
        free(folder->files[folder->count]);
    }
    assert_int_equal(rmdir(folder->path), 0);
}

/// Reads a file to its end. Returns the failure's text without the folder's name at its start, or
/// "".
static const char *read_file(const struct folder *folder, const char *path, uint32_t *count,
                             struct failure *failure) {
    struct lexer lexer;
    const char *text;

    *count = 0;
    text =
        lexer_open_file(&lexer, path, failure) ? failure->text : read_all(&lexer, failure, count);
    lexer_close(&lexer);
    if (!text)
        return "";
    if (strncmp(text, folder->path, strlen(folder->path)) == 0)
        text += strlen(folder->path) + 1;
    return text;
}

static void includes_are_read_where_they_stand(void **state) {
    struct folder folder;
    struct failure failure;
    struct policy policy = {0};
    struct lexer lexer;
    struct token token;
    char expected[256];
    uint32_t count;

    (void)state;
    folder_make(&folder);
    // The included file has no line end at its end; the lexer must return one there.
    folder_add(&folder, "b.nft", "define x = 1\nb");
    folder_add(&folder, "a.nft", "include \"b.nft\"; a $x");
    assert_int_equal(lexer_open_file(&lexer, folder.files[1], &failure), 0);
    assert_true(lexer_consume_word(&lexer, "include"));
    assert_int_equal(directive_include(&lexer), 0);
    assert_true(lexer_consume_word(&lexer, "define"));
    assert_int_equal(directive_define(&lexer), 0);
    assert_int_equal(lexer_consume_end(&lexer), 0);
    token = lexer_consume(&lexer);
    assert_true(token_is(&token, "b"));
    assert_int_equal(token.place.file, 1);
    assert_int_equal(token.place.line, 2);
    assert_int_equal(lexer_consume(&lexer).kind, TOKEN_LINE_END);
    token = lexer_consume(&lexer);
    assert_true(token_is(&token, "a"));
    assert_int_equal(token.place.file, 0);
    assert_int_equal(token.place.column, 18);
    assert_int_equal(lexer_consume(&lexer).number, 1);
    lexer_take_names(&lexer, &policy);
    lexer_close(&lexer);
    assert_int_equal(policy.file_count, 2);
    snprintf(expected, sizeof expected, "%s/b.nft", folder.path);
    assert_string_equal(policy.files[1], expected);
    policy_free(&policy);
    // An absolute path stays unchanged. A file may be included again after its end.
    snprintf(expected, sizeof expected, "include \"%s\"\ninclude \"b2.nft\"\n",
             folder_add(&folder, "b2.nft", "b\n"));
    folder_add(&folder, "c.nft", expected);
    assert_string_equal(read_file(&folder, folder.files[3], &count, &failure), "");
    assert_int_equal(count, 6);
    folder_remove(&folder);
}

/// Checks that reading a file fails with this text, without the folder's name.
static void check_fails(const struct folder *folder, const char *path, const char *expected) {
    struct failure failure = {0};
    uint32_t count;

    assert_string_equal(read_file(folder, path, &count, &failure), expected);
    assert_int_equal(failure.code, LOG_EXIT_USAGE);
}

static void includes_that_fail(void **state) {
    struct folder folder;
    struct failure failure;
    uint32_t count;
    char text[FOLDER_BYTES * 2];

    (void)state;
    folder_make(&folder);
    snprintf(text, sizeof text, "%s/none.nft", folder.path);
    check_fails(&folder, text, "none.nft: cannot read the policy: No such file or directory");
    snprintf(text, sizeof text, "%s: cannot read the policy: Is a directory", folder.path);
    read_file(&folder, folder.path, &count, &failure);
    assert_string_equal(failure.text, text);
    check_fails(&folder, folder_add(&folder, "a", "\ninclude \"none.nft\"\n"),
                "a:2:9: \"none.nft\": cannot read it: No such file or directory");
    check_fails(&folder, folder_add(&folder, "b", "include \"*.nft\"\n"),
                "b:1:9: \"*.nft\": no wildcards: include each file by its name");
    check_fails(&folder, folder_add(&folder, "c", "include none.nft\n"),
                "c:1:9: found \"none.nft\", expected the name of a file in quotes");
    check_fails(&folder, folder_add(&folder, "d", "include \"a\" b\n"),
                "d:1:13: found \"b\", expected the end of the line or \";\"");
    check_fails(&folder, folder_add(&folder, "e", "x\ninclude \"e\""),
                "e:2:9: \"e\": this file includes itself");
    // The file includes itself through another file without a line end at its end, and through a
    // link.
    folder_add(&folder, "g", "include \"h\"");
    folder_add(&folder, "f", "include \"g\"");
    folder_path(&folder, "h");
    assert_int_equal(link(folder.files[folder.count - 2], folder.files[folder.count - 1]), 0);
    check_fails(&folder, folder.files[folder.count - 2], "g:1:9: \"h\": this file includes itself");
    folder_remove(&folder);
}

static void files_in_one_another_are_limited(void **state) {
    struct folder folder;
    struct failure failure;
    char name[16], text[32];
    uint32_t count;

    (void)state;
    folder_make(&folder);
    folder_add(&folder, "17", "end\n");
    for (int i = 16; i > 0; i--) {
        snprintf(name, sizeof name, "%d", i);
        snprintf(text, sizeof text, "include \"%d\"\n", i + 1);
        folder_add(&folder, name, text);
    }
    check_fails(&folder, folder.files[16], "16:1:9: \"17\": more than 16 files in one another");
    assert_string_equal(read_file(&folder, folder.files[15], &count, &failure), "");
    folder_remove(&folder);
}

/// Reads a text that a function writes, and counts its tokens. Returns the failure's text, or "".
static const char *read_written(void (*write)(FILE *), struct failure *failure, uint32_t *count) {
    struct lexer lexer;
    const char *found;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    write(out);
    fclose(out);
    *count = 0;
    found = lexer_open_text(&lexer, "t", (const uint8_t *)text, bytes, failure)
                ? failure->text
                : read_all(&lexer, failure, count);
    lexer_close(&lexer);
    free(text);
    return found ? found : "";
}

static void write_defines(FILE *out, int depth) {
    fputs("define d1 = 1\n", out);
    for (int i = 2; i <= depth; i++)
        fprintf(out, "define d%d = $d%d\n", i, i - 1);
    fprintf(out, "$d%d\n", depth);
}

static void write_64_defines(FILE *out) { write_defines(out, 64); }

static void write_65_defines(FILE *out) { write_defines(out, 65); }

static void write_too_much(FILE *out) {
    for (int i = 0; i <= POLICY_TEXT_MAX; i++)
        fputc('#', out);
}

static void limits_hold(void **state) {
    struct failure failure;
    uint32_t count;

    (void)state;
    assert_string_equal(read_written(write_64_defines, &failure, &count), "");
    assert_string_equal(read_written(write_65_defines, &failure, &count),
                        "t:2:13: \"$d1\": more than 64 $NAME in one another");
    assert_string_equal(read_written(write_too_much, &failure, &count),
                        "t: the policy is larger than 32 MiB with its includes");
}

static void words_of_the_language_are_reserved(void **state) {
    (void)state;
    assert_true(token_is_reserved("accept", 6));
    assert_true(token_is_reserved("xt", 2));
    assert_true(token_is_reserved("ip6", 3));
    assert_true(token_is_reserved("ip60", 2));
    assert_false(token_is_reserved("ip60", 4));
    assert_false(token_is_reserved("acceptx", 7));
    assert_false(token_is_reserved("accep", 5));
    assert_false(token_is_reserved("filter", 6));
    assert_false(token_is_reserved("", 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_the_vectors),
        cmocka_unit_test(two_tokens_can_be_looked_at),
        cmocka_unit_test(messages_have_their_forms),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(includes_are_read_where_they_stand),
        cmocka_unit_test(includes_that_fail),
        cmocka_unit_test(files_in_one_another_are_limited),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(words_of_the_language_are_reserved),
    };

    return cmocka_run_group_tests_name("lexer", tests, NULL, NULL);
}
