// SPDX-License-Identifier: GPL-2.0-or-later
// Single values of the command line, read and checked. What is wrong is told in one line that names
// the option and quotes the value.
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

/// The raw value of an option, NULL if it was not given.
const char *values_get(const struct values *values, enum arguments_option option);

/// Says what is expected of an option that was given. Returns -EINVAL.
int values_fail(const struct values *values, enum arguments_option option);

/// Says that an option has no meaning without another. Returns -EINVAL.
/// - other: "--policy"; what: how it is called in a sentence, "a policy"
int values_fail_without(const struct values *values, enum arguments_option option, const char *what,
                        const char *other);

/// Reads decimal digits, and nothing else, up to `end` (excluded).
bool values_read_number(const char *text, const char *end, uint32_t max, uint32_t *number);

/// Reads a mark to the end of a text, hexadecimal behind 0x or decimal.
bool values_read_mark(const char *text, uint32_t *mark);

// Each of these sets its last argument if the option was given. Returns 0, or -EINVAL with failure
// filled in and the last argument untouched.

/// A number of the option's range.
int values_number(const struct values *values, enum arguments_option option, uint32_t *number);

/// - choice: the place in the option's names
int values_choice(const struct values *values, enum arguments_option option, int *choice);

/// A text in UTF-8, not empty and not longer than the option's may be.
int values_text(const struct values *values, enum arguments_option option, const char **text);

/// Checks whether a path is text, as what quotes it is. path: NULL is good.
int values_path(const struct values *values, const char *path);

#endif
