// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/count.h"

#include <ctype.h>
#include <string.h>

#include "policy/parse/refuse.h"
#include "policy/value.h"

#define SIZE_EXPECTED "bytes, kbytes or mbytes"
#define UNIT_EXPECTED "second, minute, hour, day or week"
#define NANOSECONDS UINT64_C(1000000000)

enum {
    // Capacity for a prefix: each second byte can begin a $NAME, which stands for up to 127 bytes.
    PREFIX_BYTES = POLICY_NAME_BYTES * POLICY_NAME_BYTES,
};

/// Returns the number of bytes of a unit: 1 (bytes), 1,024 (kbytes) or 1,048,576 (mbytes); 0 for
/// other texts.
static uint64_t find_size(const char *text, size_t length) {
    static const struct {
        const char *word;
        uint64_t bytes;
    } sizes[] = {{"bytes", 1}, {"kbytes", 1 << 10}, {"mbytes", 1 << 20}};

    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strlen(sizes[i].word) == length && memcmp(sizes[i].word, text, length) == 0)
            return sizes[i].bytes;
    return 0;
}

/// Multiplies a number by the bytes of its unit. Fails if the product is too large.
static int sized(struct parser *parser, const struct token *number, uint64_t size,
                 uint64_t *bytes) {
    if (__builtin_mul_overflow(number->number, size, bytes))
        return lexer_wrong(&parser->lexer, number, "too many bytes");
    return 0;
}

/// Parses a unit: bytes, kbytes or mbytes. Stores the number of bytes that it stands for.
static int parse_size(struct parser *parser, uint64_t *size) {
    const struct token token = lexer_consume(&parser->lexer);

    *size = token.kind == TOKEN_WORD ? find_size(token.text, token.length) : 0;
    return *size ? 0 : lexer_unexpected(&parser->lexer, &token, SIZE_EXPECTED);
}

/// Parses a number and its unit.
/// - number: out: the number's token.
/// - bytes: out: the number of bytes.
static int parse_bytes(struct parser *parser, struct token *number, uint64_t *bytes) {
    uint64_t size = 0;
    int status = parse_number(parser, number);

    if (status == 0)
        status = parse_size(parser, &size);
    return status != 0 ? status : sized(parser, number, size, bytes);
}

int parse_count_counter(struct parser *parser, struct policy_counter *counter) {
    const struct token next = *lexer_peek(&parser->lexer, 0);
    int status = parse_refuse_check(&parser->lexer, PARSE_AT_NAMED, &next);
    struct token number;

    while (status == 0) {
        const bool is_packets = lexer_consume_word(&parser->lexer, "packets");

        if (!is_packets && !lexer_consume_word(&parser->lexer, "bytes"))
            return 0;
        status = parse_number(parser, &number);
        if (status == 0)
            *(is_packets ? &counter->packets : &counter->bytes) = number.number;
    }
    return status;
}

/// Parses a unit of time after a `/`. Stores its length in seconds.
static int parse_unit(struct parser *parser, uint64_t *seconds) {
    const struct token token = lexer_consume(&parser->lexer);

    *seconds = token.kind == TOKEN_WORD ? value_find_unit(token.text, token.length) : 0;
    return *seconds ? 0 : lexer_unexpected(&parser->lexer, &token, UNIT_EXPECTED);
}

/// Parses the units of a rate: `/TIME`, or `UNIT/TIME` such as kbytes/second (one word, unless
/// blanks divide it). Stores the number of bytes of UNIT (0 = the rate counts packets) and the
/// seconds of TIME.
static int parse_rate_unit(struct parser *parser, uint64_t *size, uint64_t *seconds) {
    static const char expected[] = "\"/\", bytes, kbytes or mbytes";
    const struct token token = lexer_consume(&parser->lexer);
    const char *slash = token.kind == TOKEN_WORD ? memchr(token.text, '/', token.length) : NULL;
    const size_t length = slash ? (size_t)(slash - token.text) : token.length;

    *size = 0;
    if (token.sign == SIGN_SLASH)
        return parse_unit(parser, seconds);
    if (token.kind == TOKEN_WORD)
        *size = find_size(token.text, length);
    if (*size == 0)
        return lexer_unexpected(&parser->lexer, &token, expected);
    if (!slash) {
        const int status = parse_sign(parser, SIGN_SLASH, "\"/\" and a unit of time");

        return status != 0 ? status : parse_unit(parser, seconds);
    }
    *seconds = value_find_unit(slash + 1, token.length - length - 1);
    return *seconds ? 0 : lexer_unexpected(&parser->lexer, &token, expected);
}

/// Parses the part after `burst`: N and a unit of bytes if limit->of_bytes is true (the rate counts
/// bytes), otherwise `N packets`. Stores the number of bytes or packets in limit->burst.
static int parse_burst(struct parser *parser, struct policy_limit *limit) {
    struct token number;
    int status;

    if (limit->of_bytes) {
        status = parse_bytes(parser, &number, &limit->burst);
        if (status != 0)
            return status;
    } else {
        status = parse_number(parser, &number);
        if (status == 0)
            status = parse_word(parser, "packets", "packets");
        if (status != 0)
            return status;
        if (number.number == 0)
            return lexer_wrong(&parser->lexer, &number, "a burst is at least 1 packet");
        limit->burst = number.number;
    }
    if (limit->burst > UINT32_MAX)
        return lexer_wrong(&parser->lexer, &number, "a burst is at most 4294967295");
    return 0;
}

/// Returns true if nf_tables can represent a limit's tokens in 64 bits (nft_limit_init in
/// net/netfilter/nft_limit.c).
static bool limit_fits(const struct policy_limit *limit) {
    const uint64_t time = limit->unit_s * NANOSECONDS;
    uint64_t both, tokens;

    if (__builtin_add_overflow(limit->rate, limit->burst, &both))
        return false;
    return limit->of_bytes ? !__builtin_mul_overflow(time, both, &tokens)
                           : !__builtin_mul_overflow(time / limit->rate, limit->burst, &tokens);
}

int parse_count_limit(struct parser *parser, struct policy_limit *limit) {
    const struct token next = *lexer_peek(&parser->lexer, 0);
    struct token number;
    uint64_t size = 0;
    int status;

    if (!lexer_consume_word(&parser->lexer, "rate"))
        return parse_refuse_unexpected(&parser->lexer, PARSE_AT_NAMED, &next, "rate");
    limit->over = lexer_consume_word(&parser->lexer, "over");
    status = parse_number(parser, &number);
    if (status == 0)
        status = parse_rate_unit(parser, &size, &limit->unit_s);
    if (status != 0)
        return status;
    limit->of_bytes = size > 0;
    limit->burst = limit->of_bytes ? 0 : POLICY_LIMIT_BURST_PACKETS;
    status = sized(parser, &number, limit->of_bytes ? size : 1, &limit->rate);
    if (status == 0 && lexer_consume_word(&parser->lexer, "burst"))
        status = parse_burst(parser, limit);
    if (status != 0)
        return status;
    if (limit->rate == 0)
        return lexer_wrong(&parser->lexer, &number, "a rate is at least 1");
    if (!limit_fits(limit))
        return lexer_wrong(&parser->lexer, &number,
                           "rate and burst are more than the kernel can count");
    return 0;
}

int parse_count_quota(struct parser *parser, struct policy_quota *quota) {
    const struct token next = *lexer_peek(&parser->lexer, 0);
    int status = parse_refuse_check(&parser->lexer, PARSE_AT_NAMED, &next);
    struct token number;

    if (status != 0)
        return status;
    quota->over = lexer_consume_word(&parser->lexer, "over");
    if (!quota->over)
        lexer_consume_word(&parser->lexer, "until");
    status = parse_bytes(parser, &number, &quota->bytes);
    if (status != 0)
        return status;
    if (quota->bytes > INT64_MAX)
        return lexer_wrong(&parser->lexer, &number, "too many bytes");
    if (!lexer_consume_word(&parser->lexer, "used"))
        return 0;
    status = parse_bytes(parser, &number, &quota->used);
    if (status == 0 && quota->used > quota->bytes)
        return lexer_wrong(&parser->lexer, &number, "more than the quota");
    return status;
}

/// Parses the level of a log, after the word `level`.
static int parse_level(struct parser *parser, struct policy_log *log) {
    const struct token word = lexer_consume(&parser->lexer);
    const int level = value_find_level(&word);

    if (level < 0)
        return lexer_unexpected(&parser->lexer, &word,
                                "emerg, alert, crit, err, warn, notice, info or debug");
    log->level = (uint8_t)level;
    return 0;
}

static bool in_name(char byte) { return isalnum((unsigned char)byte) || byte == '_'; }

/// Appends the part of a prefix after a `$`. The part begins with a name, which is replaced by its
/// value.
/// - length: length of the part in bytes
/// - prefix: in: end of the prefix so far; out: its end with the part
static int append_part(struct parser *parser, const struct token *token, const char *part,
                       size_t length, char **prefix) {
    struct token name = {.kind = TOKEN_WORD, .text = part};
    char value[POLICY_NAME_BYTES];
    int status;

    while (name.length < length && in_name(part[name.length]))
        name.length++;
    if (name.length == 0)
        return lexer_wrong(&parser->lexer, token,
                           "$ begins a name in a prefix, and none follows: leave it out");
    status = lexer_value_within(&parser->lexer, token, &name, value);
    if (status)
        return status;
    *prefix = mempcpy(*prefix, value, strlen(value));
    *prefix = mempcpy(*prefix, part + name.length, length - name.length);
    return 0;
}

/// Replaces each $NAME in a prefix by its value, like nft: the name consists of letters, digits and
/// `_`.
static int replace_names(struct parser *parser, const struct token *token, const char *text,
                         char prefix[static POLICY_NAME_BYTES]) {
    char replaced[PREFIX_BYTES];
    const char *end = strchrnul(text, '$');
    char *at = mempcpy(replaced, text, (size_t)(end - text));

    while (*end) {
        const char *part = end + 1;
        int status;

        end = strchrnul(part, '$');
        status = append_part(parser, token, part, (size_t)(end - part), &at);
        if (status)
            return status;
    }
    if (at - replaced >= POLICY_NAME_BYTES)
        return lexer_wrong(&parser->lexer, token, "longer than 127 bytes when $NAME is replaced");
    *at = '\0';
    memcpy(prefix, replaced, (size_t)(at - replaced) + 1);
    return 0;
}

/// Parses the prefix of a log, and replaces each $NAME in it.
static int parse_prefix(struct parser *parser, struct policy_log *log) {
    const struct token token = *lexer_peek(&parser->lexer, 0);
    char text[POLICY_NAME_BYTES];
    const int status = parse_string(parser, text);

    return status ? status : replace_names(parser, &token, text, log->prefix);
}

int parse_count_log(struct parser *parser, struct policy_log *log) {
    bool has_prefix = false, has_level = false;
    int status = 0;

    log->level = 4;
    while (status == 0) {
        const struct token token = *lexer_peek(&parser->lexer, 0);
        const bool is_prefix = token_is(&token, "prefix"), is_level = token_is(&token, "level");

        if (!is_prefix && !is_level)
            return parse_refuse_check(&parser->lexer, PARSE_AT_LOG, &token);
        if (is_prefix ? has_prefix : has_level)
            return lexer_wrong(&parser->lexer, &token, "given twice");
        lexer_consume(&parser->lexer);
        has_prefix |= is_prefix;
        has_level |= is_level;
        status = is_prefix ? parse_prefix(parser, log) : parse_level(parser, log);
    }
    return status;
}
