// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/source.h"

const char *values_get(const struct values *values, enum arguments_option option) {
    return values->arguments->values[option];
}

int values_fail(const struct values *values, enum arguments_option option) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(values->failure, LOG_EXIT_USAGE, "--%s \"%s\": expected %s", arguments_name(option),
                arguments_quote(values_get(values, option), quoted), option_facts[option].expected);
    return -EINVAL;
}

int values_fail_without(const struct values *values, enum arguments_option option, const char *what,
                        const char *other) {
    failure_set(values->failure, LOG_EXIT_USAGE,
                "--%s has no meaning without %s: add %s or leave it out", arguments_name(option),
                what, other);
    return -EINVAL;
}

bool values_parse_number(const char *text, const char *end, uint32_t max, uint32_t *number) {
    uint64_t read = 0;

    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        read = read * 10 + (uint64_t)(*text - '0');
        if (read > max)
            return false;
    }
    *number = (uint32_t)read;
    return true;
}

/// Parses the digits of a hexadecimal number of at most 32 bits.
static bool parse_hexadecimal(const char *text, uint32_t *number) {
    uint64_t read = 0;

    if (*text == '\0' || text[strspn(text, "0123456789abcdefABCDEF")] != '\0')
        return false;
    for (; *text; text++) {
        const char digit[] = {*text, '\0'};

        read = read * 16 + strtoul(digit, NULL, 16);
        if (read > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)read;
    return true;
}

bool values_parse_mark(const char *text, uint32_t *mark) {
    if (strncmp(text, "0x", 2) == 0)
        return parse_hexadecimal(text + 2, mark);
    return values_parse_number(text, text + strlen(text), UINT32_MAX, mark);
}

int values_number(const struct values *values, enum arguments_option option, uint32_t *number) {
    const struct option_facts *facts = &option_facts[option];
    const char *value = values_get(values, option);
    uint32_t read;

    if (!value)
        return 0;
    if (!values_parse_number(value, value + strlen(value), facts->max, &read) ||
        (read < facts->min && !(facts->zero && read == 0)))
        return values_fail(values, option);
    *number = read;
    return 0;
}

int values_choice(const struct values *values, enum arguments_option option, int *choice) {
    const char *const *names = option_facts[option].choices;
    const char *value = values_get(values, option);

    if (!value)
        return 0;
    for (int i = 0; names[i]; i++) {
        if (strcmp(value, names[i]) == 0) {
            *choice = i;
            return 0;
        }
    }
    return values_fail(values, option);
}

static bool is_text(const char *text) {
    return source_check((const uint8_t *)text, strlen(text)) == strlen(text);
}

int values_text(const struct values *values, enum arguments_option option, const char **text) {
    const char *value = values_get(values, option);

    if (!value)
        return 0;
    if (*value == '\0' || strlen(value) > option_facts[option].bytes || !is_text(value))
        return values_fail(values, option);
    *text = value;
    return 0;
}

int values_path(const struct values *values, const char *path) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    if (!path || is_text(path))
        return 0;
    failure_set(values->failure, LOG_EXIT_USAGE, "\"%s\": expected a path in UTF-8",
                arguments_quote(path, quoted));
    return -EINVAL;
}
