// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Reserved words, sorted by their bytes.
static const char *const reserved[] = {
    "accept",    "add",      "ah",         "all",      "and",      "arp",      "auto-merge",
    "bridge",    "cgroup",   "chain",      "comment",  "comp",     "constant", "continue",
    "counter",   "cpu",      "create",     "ct",       "day",      "dccp",     "define",
    "delete",    "describe", "destroy",    "device",   "devices",  "dnat",     "drop",
    "dst",       "dup",      "dynamic",    "ecn",      "element",  "elements", "eq",
    "esp",       "ether",    "exists",     "expires",  "export",   "exthdr",   "fib",
    "flags",     "flow",     "flowtable",  "flush",    "frag",     "fwd",      "gc-interval",
    "ge",        "get",      "goto",       "gt",       "handle",   "hbh",      "hook",
    "hour",      "ibriport", "ibrname",    "icmp",     "icmpv6",   "igmp",     "iif",
    "iifgroup",  "iifname",  "iiftype",    "import",   "include",  "index",    "inet",
    "insert",    "interval", "ip",         "ip6",      "ipsec",    "jhash",    "jump",
    "le",        "limit",    "list",       "ll",       "log",      "lshift",   "lt",
    "map",       "mark",     "masquerade", "meta",     "meter",    "mh",       "missing",
    "monitor",   "ne",       "netdev",     "nftrace",  "nh",       "not",      "notrack",
    "numgen",    "obriport", "obrname",    "offload",  "oif",      "oifgroup", "oifname",
    "oiftype",   "or",       "osf",        "pkttype",  "policy",   "position", "priority",
    "queue",     "quota",    "random",     "redefine", "redirect", "reject",   "rename",
    "replace",   "reset",    "return",     "rshift",   "rt",       "rt0",      "rt2",
    "rtclassid", "rule",     "ruleset",    "sctp",     "secmark",  "set",      "size",
    "skgid",     "skuid",    "snat",       "socket",   "srh",      "symhash",  "synproxy",
    "table",     "tcp",      "th",         "time",     "timeout",  "tproxy",   "type",
    "typeof",    "udp",      "udplite",    "undefine", "update",   "vlan",     "vmap",
    "xor",       "xt",
};

enum { RESERVED_COUNT = sizeof reserved / sizeof *reserved };

bool token_is(const struct token *token, const char *word) {
    return token->kind == TOKEN_WORD && strlen(word) == token->length &&
           memcmp(token->text, word, token->length) == 0;
}

struct word {
    const char *text;
    size_t length;
};

static int compare_reserved(const void *key, const void *item) {
    const struct word *word = key;
    const char *name = *(const char *const *)item;
    const int order = strncmp(word->text, name, word->length);

    return order != 0 || !name[word->length] ? order : -1;
}

bool token_is_reserved(const char *text, size_t length) {
    const struct word word = {.text = text, .length = length};

    return bsearch(&word, reserved, RESERVED_COUNT, sizeof *reserved, compare_reserved) != NULL;
}

const char *token_quote(const char *text, size_t length, char quoted[static TOKEN_QUOTED_BYTES]) {
    char *at = quoted;

    *at++ = '"';
    for (size_t i = 0; i < TOKEN_QUOTE_BYTES && i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\')
            at += sprintf(at, "\\x%02x", byte);
        else
            *at++ = (char)byte;
    }
    sprintf(at, "%s\"", length > TOKEN_QUOTE_BYTES ? "..." : "");
    return quoted;
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool is_letter(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_hexadecimal(char byte) {
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

static bool in_ipv6(char byte) { return is_hexadecimal(byte) || byte == ':'; }

static bool in_ipv4(char byte) { return is_digit(byte) || byte == '.'; }

static bool in_string(char byte) { return byte != '"' && byte != '\n'; }

/// Returns true if a byte is valid in a word after its first character.
static bool in_word(char byte) {
    return is_letter(byte) || is_digit(byte) || byte == '_' || byte == '-' || byte == '.' ||
           byte == '/';
}

static bool in_wildcard(char byte) { return in_word(byte) || byte == '*'; }

static bool in_other(char byte) { return is_letter(byte) || is_digit(byte) || byte == '_'; }

/// Returns true if a byte continues a UTF-8 character.
static bool in_character(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/// Returns the number of bytes at the start of a text for which `is` returns true.
static size_t run(const char *text, const char *end, bool (*is)(char)) {
    const char *at = text;

    while (at < end && is(*at))
        at++;
    return (size_t)(at - text);
}

static struct token_scanned scanned(enum token_kind kind, size_t length) {
    return (struct token_scanned){.kind = kind, .length = length};
}

static struct token_scanned scanned_wrong(size_t length, const char *cause) {
    return (struct token_scanned){.kind = TOKEN_OTHER, .length = length, .cause = cause};
}

/// Returns a token; a token with an error if it is longer than a name may be.
static struct token_scanned limited(enum token_kind kind, size_t length) {
    if (length < POLICY_NAME_BYTES)
        return scanned(kind, length);
    return scanned_wrong(length, "longer than 127 bytes");
}

static struct token_scanned scan_string(const char *text, const char *end) {
    const size_t length = 1 + run(text + 1, end, in_string);
    struct token_scanned found;

    if (text + length == end || text[length] != '"')
        return scanned_wrong(length, "no closing quote in this line");
    found = limited(TOKEN_STRING, length - 1);
    found.length = length + 1;
    return found;
}

static struct token_scanned scan_variable(const char *text, const char *end) {
    const size_t length = run(text + 1, end, in_word);
    struct token_scanned found;

    if (length == 0 || (!is_letter(text[1]) && text[1] != '_'))
        return scanned(TOKEN_OTHER, 1);
    found = limited(TOKEN_VARIABLE, length);
    found.length = length + 1;
    return found;
}

static struct token_scanned scan_word(const char *text, const char *end) {
    const size_t length = run(text, end, in_word);

    if (text + length < end && text[length] == '*')
        return limited(TOKEN_WILDCARD, run(text, end, in_wildcard));
    return limited(TOKEN_WORD, length);
}

/// Returns the length of a text without the dots at its end.
static size_t without_dots(const char *text, size_t length) {
    while (length > 0 && text[length - 1] == '.')
        length--;
    return length;
}

/// Returns true if the text after the last colon is a number of decimal digits.
static bool ends_decimal(const char *text, size_t length) {
    size_t digits = 0;

    while (digits < length && is_digit(text[length - 1 - digits]))
        digits++;
    return digits > 0 && digits < length && text[length - 1 - digits] == ':';
}

/// Scans an IPv6 address: hexadecimal digits and colons, at least two colons, then perhaps a dotted
/// end. A single colon at the end does not belong to it: `::1: accept`. Returns false if the text
/// does not begin with an address.
static bool scan_ipv6(const char *text, const char *end, struct token_scanned *found) {
    size_t length = run(text, end, in_ipv6);
    uint32_t colons = 0;

    if (length >= 1 && text[length - 1] == ':' &&
        (length < 2 || text[length - 2] != ':' || (length >= 3 && text[length - 3] == ':')))
        length--;
    for (size_t i = 0; i < length; i++)
        colons += text[i] == ':';
    if (colons < 2)
        return false;
    if (ends_decimal(text, length))
        length = without_dots(text, length + run(text + length, end, in_ipv4));
    *found = limited(TOKEN_IPV6, length);
    return true;
}

static struct token_scanned scan_digits(const char *text, size_t length, unsigned base) {
    struct token_scanned found = scanned(TOKEN_NUMBER, length);

    for (size_t i = base == 16 ? 2 : 0; i < length; i++) {
        const char byte = text[i];
        const unsigned digit =
            is_digit(byte) ? (unsigned)(byte - '0') : (unsigned)((byte | 0x20) - 'a' + 10);

        if (__builtin_mul_overflow(found.number, base, &found.number) ||
            __builtin_add_overflow(found.number, digit, &found.number))
            return scanned_wrong(length, "larger than 18446744073709551615");
    }
    return found;
}

/// Scans a number, an IPv4 address, or another text that begins with a digit.
static struct token_scanned scan_number(const char *text, const char *end) {
    const bool hexadecimal = end - text > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const size_t length = hexadecimal ? 2 + run(text + 2, end, is_hexadecimal)
                                      : without_dots(text, run(text, end, in_ipv4));
    const size_t whole = length + run(text + length, end, in_other);

    if (whole > length || (hexadecimal && length == 2))
        return limited(TOKEN_OTHER, whole);
    if (hexadecimal)
        return scan_digits(text, length, 16);
    if (memchr(text, '.', length))
        return limited(TOKEN_IPV4, length);
    if (length > 1 && text[0] == '0')
        return scanned_wrong(length, "a leading zero, which nft reads as octal: leave it out");
    return scan_digits(text, length, 10);
}

static struct token_scanned scanned_sign(enum token_sign sign, size_t length) {
    return (struct token_scanned){.kind = TOKEN_SIGN, .sign = sign, .length = length};
}

/// Scans a sign, or another single character.
static struct token_scanned scan_sign(const char *text, const char *end) {
    const bool assigned = end - text > 1 && text[1] == '=';

    switch (text[0]) {
    case '=':
        return assigned ? scanned_sign(SIGN_EQ, 2) : scanned_sign(SIGN_ASSIGN, 1);
    case '<':
        return assigned ? scanned_sign(SIGN_LE, 2) : scanned_sign(SIGN_LT, 1);
    case '>':
        return assigned ? scanned_sign(SIGN_GE, 2) : scanned_sign(SIGN_GT, 1);
    case '!':
        return assigned ? scanned_sign(SIGN_NE, 2) : scanned(TOKEN_OTHER, 1);
    case '{':
        return scanned_sign(SIGN_BRACE_OPEN, 1);
    case '}':
        return scanned_sign(SIGN_BRACE_CLOSE, 1);
    case '(':
        return scanned_sign(SIGN_ROUND_OPEN, 1);
    case ')':
        return scanned_sign(SIGN_ROUND_CLOSE, 1);
    case ',':
        return scanned_sign(SIGN_COMMA, 1);
    case ':':
        return scanned_sign(SIGN_COLON, 1);
    case '.':
        return scanned_sign(SIGN_DOT, 1);
    case '&':
        return scanned_sign(SIGN_AND, 1);
    case '|':
        return scanned_sign(SIGN_OR, 1);
    case '^':
        return scanned_sign(SIGN_XOR, 1);
    case '/':
        return scanned_sign(SIGN_SLASH, 1);
    case '-':
        return scanned_sign(SIGN_MINUS, 1);
    case '+':
        return scanned_sign(SIGN_PLUS, 1);
    case '@':
        return scanned_sign(SIGN_AT, 1);
    default:
        return scanned(TOKEN_OTHER, 1 + run(text + 1, end, in_character));
    }
}

struct token_scanned token_scan(const char *text, const char *end) {
    struct token_scanned found;

    if (text == end)
        return scanned(TOKEN_END_OF_TEXT, 0);
    if (*text == '\n')
        return scanned(TOKEN_LINE_END, 1);
    if (*text == ';')
        return scanned(TOKEN_SEMICOLON, 1);
    if (*text == '"')
        return scan_string(text, end);
    if (*text == '$')
        return scan_variable(text, end);
    if (is_digit(*text))
        return scan_ipv6(text, end, &found) ? found : scan_number(text, end);
    if (is_letter(*text))
        return scan_ipv6(text, end, &found) ? found : scan_word(text, end);
    if (*text == ':' && scan_ipv6(text, end, &found))
        return found;
    if (*text == '_' || (*text == '.' && end - text > 1 && in_word(text[1])))
        return scan_word(text, end);
    return scan_sign(text, end);
}
