// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/comment.h"

#include <errno.h>
#include <string.h>

#include "options/explain.h"

enum {
    // Maximum length of a known field's value, in bytes. A comment with a longer value is damaged.
    VALUE_BYTES_MAX = 63,
};

/// A known field: its name, and the function that parses its value. The function returns false if
/// the value is invalid.
struct field {
    const char *name;
    bool (*store)(struct comment *comment, const char *value);
};

static bool store_verdict(struct comment *comment, const char *value) {
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++)
        if (strcmp(verdict_name((enum verdict)verdict), value) == 0) {
            comment->has_verdict = true;
            comment->verdict = (enum verdict)verdict;
        }
    return comment->has_verdict;
}

static bool store_hook(struct comment *comment, const char *value) {
    comment->facts.has_hook = options_explain_parse_hook(value, &comment->facts.hook);
    return comment->facts.has_hook;
}

static bool store_iif(struct comment *comment, const char *value) {
    return options_explain_parse_interface(value, comment->facts.iif);
}

static bool store_oif(struct comment *comment, const char *value) {
    return options_explain_parse_interface(value, comment->facts.oif);
}

static bool store_mark(struct comment *comment, const char *value) {
    return values_parse_mark(value, &comment->facts.mark);
}

static bool store_uid(struct comment *comment, const char *value) {
    comment->facts.has_uid = options_explain_parse_id(value, &comment->facts.uid);
    return comment->facts.has_uid;
}

static bool store_gid(struct comment *comment, const char *value) {
    comment->facts.has_gid = options_explain_parse_id(value, &comment->facts.gid);
    return comment->facts.has_gid;
}

static bool store_ct_state(struct comment *comment, const char *value) {
    comment->facts.has_ct_state = options_explain_parse_ct_state(value, &comment->facts.ct_state);
    return comment->facts.has_ct_state;
}

static bool store_ct_mark(struct comment *comment, const char *value) {
    comment->facts.has_ct_mark = values_parse_mark(value, &comment->facts.ct_mark);
    return comment->facts.has_ct_mark;
}

static const struct field fields[] = {
    {"verdict", store_verdict}, {"hook", store_hook},   {"iif", store_iif},
    {"oif", store_oif},         {"mark", store_mark},   {"uid", store_uid},
    {"gid", store_gid},         {"ct", store_ct_state}, {"ctmark", store_ct_mark},
};

/// Returns the value of a hexadecimal digit; -1 if the byte is no digit.
static int digit_of(uint8_t byte) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t lower = byte >= 'A' && byte <= 'F' ? (uint8_t)(byte + 'a' - 'A') : byte;
    const char *found = lower ? strchr(digits, lower) : NULL;

    return found ? (int)(found - digits) : -1;
}

/// Decodes %XX in a value, and appends a NUL. Returns false if the value holds a NUL, or is damaged
/// or too long.
static bool decode(const uint8_t *text, size_t length, char value[static VALUE_BYTES_MAX + 1]) {
    size_t count = 0;

    for (size_t at = 0; at < length; at++) {
        int byte = text[at];

        if (byte == '%') {
            const int high = length - at > 2 ? digit_of(text[at + 1]) : -1;
            const int low = length - at > 2 ? digit_of(text[at + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            byte = high * 16 + low;
            at += 2;
        }
        if (byte == 0 || count == VALUE_BYTES_MAX)
            return false;
        value[count++] = (char)byte;
    }
    value[count] = '\0';
    return true;
}

/// Returns true if the text is not empty and all its bytes lie within the range.
static bool all_within(const uint8_t *text, size_t length, uint8_t low, uint8_t high) {
    for (size_t i = 0; i < length; i++)
        if (text[i] < low || text[i] > high)
            return false;
    return length > 0;
}

/// Parses a field, NAME=VALUE; ignores a field with an unknown name. Returns false if the field is
/// damaged or repeated.
/// - seen: in/out: bit n is set if fields[n] has been parsed.
static bool parse_word(struct comment *comment, const uint8_t *text, size_t length,
                       uint32_t *seen) {
    const uint8_t *equals = memchr(text, '=', length);
    const size_t name = equals ? (size_t)(equals - text) : 0;
    char value[VALUE_BYTES_MAX + 1];

    if (!equals || !all_within(text, name, 'a', 'z') ||
        !all_within(equals + 1, length - name - 1, '!', '~'))
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != name || memcmp(fields[i].name, text, name) != 0)
            continue;
        if (*seen & UINT32_C(1) << i || !decode(equals + 1, length - name - 1, value))
            return false;
        *seen |= UINT32_C(1) << i;
        return fields[i].store(comment, value);
    }
    return true;
}

int comment_parse(const uint8_t *text, size_t length, struct comment *comment) {
    struct comment read = {0};
    uint32_t seen = 0;

    if (length == 0)
        return -EINVAL;
    for (size_t at = 0; at < length;) {
        const uint8_t *begin = text + at + 1;
        const uint8_t *space = memchr(begin, ' ', length - at - 1);
        const size_t bytes = space ? (size_t)(space - begin) : length - at - 1;

        if (text[at] != ' ' || !parse_word(&read, begin, bytes, &seen))
            return -EINVAL;
        at += 1 + bytes;
    }
    *comment = read;
    return 0;
}
