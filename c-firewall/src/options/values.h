// SPDX-License-Identifier: GPL-2.0-or-later
// Parsing and checking of single values of the command line. The error for an invalid value is one
// line that quotes the value, and names the option unless the value is a path.
#ifndef OPTIONS_VALUES_H
#define OPTIONS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "options/arguments.h"

/// Arguments of the command line, and the destination of errors.
struct values {
    const struct arguments *arguments;
    struct failure *failure;
};

/// Returns the raw value of an option; NULL if it was not given.
const char *values_get(const struct values *values, enum arguments_option option);

/// Fills in the failure of an option with an invalid value, which names the expected values.
/// Returns -EINVAL.
int values_fail(const struct values *values, enum arguments_option option);

/// Fills in the failure of an option that needs another option. Returns -EINVAL.
/// - what: phrase for the other option: "a policy".
/// - other: the other option: "--policy".
int values_fail_without(const struct values *values, enum arguments_option option, const char *what,
                        const char *other);

/// Parses a decimal number from 0 to `max` in the text up to `end` (excluded). Returns true if it
/// is valid.
/// - number: out: untouched on failure.
bool values_parse_number(const char *text, const char *end, uint32_t max, uint32_t *number);

/// Parses a mark of 32 bits: hexadecimal after 0x, or decimal.
/// - mark: out: untouched on failure.
bool values_parse_mark(const char *text, uint32_t *mark);

// Each of these functions returns 0, or -EINVAL with failure filled in. The first three set their
// last argument if the option was given and is valid; otherwise it is untouched.

/// Parses a number within the option's range.
/// - number: in/out: changed if the option was given and is valid.
int values_number(const struct values *values, enum arguments_option option, uint32_t *number);

/// Parses a choice.
/// - choice: in/out: index of the value among the names of the option's choices; changed if the
///   option was given and is valid.
int values_choice(const struct values *values, enum arguments_option option, int *choice);

/// Parses a text in UTF-8, neither empty nor too long for the option.
/// - text: in/out: changed if the option was given and is valid.
int values_text(const struct values *values, enum arguments_option option, const char **text);

/// Checks that a path is text in UTF-8, so that reports can quote it.
/// - path: NULL is valid.
int values_path(const struct values *values, const char *path);

#endif
