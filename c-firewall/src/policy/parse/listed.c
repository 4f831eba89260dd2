// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/listed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "policy/parse/directive.h"
#include "policy/parse/source.h"

/// Byte order mark with which some editors begin UTF-8 text.
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/// Types of unbound's local-zone that block the zone's name and all names below it.
static const char *const ZONE_TYPES[] = {
    "always_null", "always_nxdomain", "always_refuse", "deny", "redirect", "refuse", "static",
};

/// Targets of a CNAME in a response policy zone that block the name.
static const char *const REFUSING_TARGETS[] = {".", "*.", "rpz-drop."};

/// Names in hosts files that belong to the machine itself.
static const char *const LOCAL_NAMES[] = {
    "0.0.0.0",         "broadcasthost", "ip6-allhosts", "ip6-allnodes",
    "ip6-allrouters",  "ip6-localhost", "ip6-localnet", "ip6-loopback",
    "ip6-mcastprefix", "local",         "localhost",    "localhost.localdomain",
};

/// A part of a text.
struct piece {
    const char *text;
    size_t length;
};

static bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

/// Returns a line without blanks around it and without its comment: the text from a `#` at the
/// start or after a blank; or the whole line, if it begins with `!` or `;`.
static struct piece without_comment(struct piece line) {
    for (size_t i = 0; i < line.length; i++)
        if (line.text[i] == '#' && (i == 0 || is_blank(line.text[i - 1])))
            line.length = i;
    while (line.length > 0 && is_blank(line.text[line.length - 1]))
        line.length--;
    while (line.length > 0 && is_blank(*line.text)) {
        line.text++;
        line.length--;
    }
    if (line.length > 0 && (*line.text == '!' || *line.text == ';'))
        line.length = 0;
    return line;
}

/// Returns true if a word is an address, with which lines of a hosts file begin.
static bool is_address(struct piece word) {
    const char *zone = memchr(word.text, '%', word.length);
    const size_t length = zone ? (size_t)(zone - word.text) : word.length;
    char text[INET6_ADDRSTRLEN] = "";
    struct in6_addr address;

    if (length >= sizeof text)
        return false;
    memcpy(text, word.text, length);
    return (!zone && inet_pton(AF_INET, text, &address) == 1) ||
           inet_pton(AF_INET6, text, &address) == 1;
}

/// Destination of the names in a file: the names of the policy, the names of the set, and the
/// file's counts.
struct target {
    struct parser *parser;
    struct policy_listed *listed;
    struct policy_listed_file *file;
    int status; // 0, or -errno with the failure set
};

static void add_id(struct target *target, const struct hostname *name, bool wildcard) {
    struct policy_listed *listed = target->listed;
    uint32_t *ids = parse_room(target->parser, listed->ids, listed->count, sizeof *ids);

    if (!ids) {
        target->status = -ENOMEM;
        return;
    }
    listed->ids = ids;
    if (hostname_add(target->parser->policy.hostnames, name->bytes, name->length, wildcard,
                     &ids[listed->count]) < 0)
        target->status = parse_no_memory(target->parser);
    else
        listed->count++;
}

/// Adds a name. For a wildcard `*.x` in a file that is read `with parents`, adds x, too. Returns
/// false if the word is not a host name, or is a wildcard that children_too excludes.
/// - children_too: true if all names below the name are also added, as a wildcard. Then the word
///   must be no wildcard.
static bool add(struct target *target, struct piece word, bool children_too) {
    struct hostname name;

    if (hostname_parse(word.text, word.length, &name) || (children_too && name.wildcard))
        return false;
    add_id(target, &name, name.wildcard);
    if (children_too && target->status == 0)
        add_id(target, &name, true);
    if (name.wildcard && target->file->with_parents && target->status == 0)
        add_id(target, &name, false);
    return true;
}

/// Returns true if a word equals one of these texts.
static bool is_one(struct piece word, const char *const texts[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(texts[i]) == word.length && memcmp(texts[i], word.text, word.length) == 0)
            return true;
    return false;
}

/// Adds a name of a hosts file, or skips a name of the machine itself. Returns false if the word is
/// neither.
static bool add_host(struct target *target, struct piece word) {
    const bool is_local = is_one(word, LOCAL_NAMES, sizeof LOCAL_NAMES / sizeof *LOCAL_NAMES);

    target->file->local += is_local;
    return is_local || add(target, word, false);
}

/// Removes and returns the next word of a line; returns an empty word at the end of the line.
static struct piece next_word(struct piece *line) {
    struct piece word;

    while (line->length > 0 && is_blank(*line->text)) {
        line->text++;
        line->length--;
    }
    word = (struct piece){line->text, 0};
    while (word.length < line->length && !is_blank(line->text[word.length]))
        word.length++;
    line->text += word.length;
    line->length -= word.length;
    return word;
}

/// Removes a text from the start of a line. Returns true if the line began with it.
static bool strip_prefix(struct piece *line, const char *text) {
    const size_t length = strlen(text);

    if (line->length < length || memcmp(line->text, text, length) != 0)
        return false;
    line->text += length;
    line->length -= length;
    return true;
}

/// Adds the names of dnsmasq's `address=/NAME/…/ADDRESS`, each with all names below it. ADDRESS can
/// be any address, `#` or empty. Returns false if the line has another form, or at the first
/// invalid NAME; the names before it stay added.
/// - rest: text after `address=/`.
static bool add_address(struct target *target, struct piece rest) {
    const char *last = memrchr(rest.text, '/', rest.length);
    struct piece address;

    if (!last)
        return false;
    address = (struct piece){last + 1, (size_t)(rest.text + rest.length - last - 1)};
    if (address.length > 0 && !(address.length == 1 && *address.text == '#') &&
        !is_address(address))
        return false;
    for (const char *at = rest.text; at <= last && target->status == 0;) {
        const char *end = memchr(at, '/', (size_t)(last - at) + 1);

        if (!add(target, (struct piece){at, (size_t)(end - at)}, true))
            return false;
        at = end + 1;
    }
    return true;
}

/// Adds the name of unbound's `local-zone: "NAME" TYPE`, with all names below it, if the type
/// blocks the name. Returns false if the line has another form or type.
static bool add_zone(struct target *target, struct piece rest) {
    struct piece name = next_word(&rest);
    const struct piece type = next_word(&rest);

    while (name.length > 0 && *name.text == '"') {
        name.text++;
        name.length--;
    }
    while (name.length > 0 && name.text[name.length - 1] == '"')
        name.length--;
    if (next_word(&rest).length > 0)
        return false;
    return is_one(type, ZONE_TYPES, sizeof ZONE_TYPES / sizeof *ZONE_TYPES) &&
           add(target, name, true);
}

/// Returns true if a word equals a text, in upper or lower case.
static bool is_word(struct piece word, const char *text) {
    return strlen(text) == word.length && strncasecmp(text, word.text, word.length) == 0;
}

static bool is_number(struct piece word) {
    for (size_t i = 0; i < word.length; i++)
        if (word.text[i] < '0' || word.text[i] > '9')
            return false;
    return word.length > 0;
}

/// Adds the name of a response policy zone's `NAME [TTL] [IN] CNAME TARGET`, if the target blocks
/// the name. Returns false if the line has another form or target, or if the name's last label
/// begins with `rpz-`: then it stands for another trigger, such as an address.
/// - rest: text after the name.
static bool add_record(struct target *target, struct piece name, struct piece rest) {
    const char *dot = memrchr(name.text, '.', name.length);
    struct piece label = name, kind, refusal, more;

    do
        kind = next_word(&rest);
    while (is_number(kind) || is_word(kind, "in"));
    refusal = next_word(&rest);
    more = next_word(&rest);
    if (!is_word(kind, "cname") ||
        !is_one(refusal, REFUSING_TARGETS, sizeof REFUSING_TARGETS / sizeof *REFUSING_TARGETS) ||
        (more.length > 0 && *more.text != ';'))
        return false;
    if (dot)
        label = (struct piece){dot + 1, (size_t)(name.text + name.length - dot - 1)};
    // "24.0.2.0.192.rpz-ip" is an address, not a name
    return !strip_prefix(&label, "rpz-") && add(target, name, false);
}

/// Adds the names of a line that is not empty. Returns false if the line has an unknown form, or if
/// a part of it is no name. The other names of the line may then be added nevertheless.
static bool add_line(struct target *target, struct piece line) {
    struct piece first, rest, word;
    bool good = true;

    if (source_check((const uint8_t *)line.text, line.length) < line.length)
        return false;
    if (line.length > 2 && memcmp(line.text, "||", 2) == 0 && line.text[line.length - 1] == '^')
        return add(target, (struct piece){line.text + 2, line.length - 3}, true);
    if (strip_prefix(&line, "address=/"))
        return add_address(target, line);
    if (strip_prefix(&line, "local-zone: "))
        return add_zone(target, line);
    first = next_word(&line);
    rest = line;
    word = next_word(&line);
    if (!is_address(first))
        return word.length == 0 ? add(target, first, false) : add_record(target, first, rest);
    if (word.length == 0)
        return false;
    for (; word.length > 0 && target->status == 0; word = next_word(&line))
        good = add_host(target, word) && good;
    return good;
}

/// Adds the names in a file's text. Counts them, all lines, and the lines that are left out.
static void add_text(struct target *target, const struct source *source) {
    struct policy_listed_file *file = target->file;
    const uint32_t before = target->listed->count;
    const char *at = source->text, *end = at + source->bytes;
    bool ended = false;

    if (source->bytes >= 3 && memcmp(at, BYTE_ORDER_MARK, 3) == 0)
        at += 3;
    if (end > at && end[-1] == '\n')
        end--;
    while (!ended && target->status == 0) {
        const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        struct piece line = {at, (size_t)((line_end ? line_end : end) - at)};

        ended = !line_end;
        if (line_end)
            at = line_end + 1;
        file->lines++;
        line = without_comment(line);
        if (line.length == 0 || add_line(target, line))
            continue;
        file->left_out++;
        if (file->first_left_out == 0)
            file->first_left_out = file->lines;
    }
    file->names = target->listed->count - before;
}

/// Returns the path relative to the folder of the policy's first file. Returns the path unchanged
/// if it lies outside this folder. The caller frees the string.
static char *as_written(const char *first, const char *name) {
    const char *slash = strrchr(first, '/');
    const size_t folder = slash ? (size_t)(slash - first) + 1 : 0;

    return strdup(strncmp(name, first, folder) == 0 ? name + folder : name);
}

/// Adds a file to a list, and its name to the lexer, which owns the name from now on. Returns the
/// new entry, or NULL if there is no memory.
static struct policy_listed_file *add_file(struct parser *parser, struct policy_listed *listed,
                                           char *name, size_t bytes) {
    struct policy_listed_file file = {0};
    struct policy_listed_file *files;

    if (lexer_add_list(&parser->lexer, name, bytes, &file.file) < 0)
        return NULL;
    file.path = as_written(parser->lexer.names[0], name);
    files = parse_room(parser, listed->files, listed->file_count, sizeof *files);
    if (files)
        listed->files = files;
    if (!files || !file.path) {
        free(file.path);
        return NULL;
    }
    files[listed->file_count] = file;
    return &files[listed->file_count++];
}

int parse_listed_read(struct parser *parser, struct policy_listed *listed) {
    const struct token path = lexer_consume(&parser->lexer);
    struct target target = {.parser = parser, .listed = listed};
    const size_t left = lexer_bytes_left(&parser->lexer);
    struct policy_listed_file *file;
    struct source source;
    char *name = NULL;
    int status;

    if (path.kind != TOKEN_STRING)
        return lexer_unexpected(&parser->lexer, &path, "the name of a file in quotes");
    status = directive_file_name(&parser->lexer, &path, &name);
    if (status != 0)
        return status;
    status = source_read(name, left, &source);
    if (status != 0) {
        free(name);
        lexer_wrong(&parser->lexer, &path, "cannot read it: %s", strerror(-status));
        return status;
    }
    if (source.bytes > left) {
        free(name);
        free(source.text);
        return lexer_wrong(&parser->lexer, &path, LEXER_TOO_LARGE);
    }
    if (!parser->policy.hostnames)
        parser->policy.hostnames = hostname_make();
    file = add_file(parser, listed, name, source.bytes);
    target.file = file;
    if (!file || !parser->policy.hostnames)
        target.status = parse_no_memory(parser);
    else if (lexer_consume_word(&parser->lexer, "with")) {
        target.status = parse_word(parser, "parents", "parents");
        file->with_parents = true;
    }
    if (target.status == 0)
        add_text(&target, &source);
    free(source.text);
    if (target.status != 0)
        return target.status;
    if (file->names == 0 && file->left_out > 0)
        return lexer_wrong(
            &parser->lexer, &path,
            "no line of it is one that is read, the first at line %u: see `file` in GRAMMAR.md",
            file->first_left_out);
    return lexer_consume_end(&parser->lexer);
}
