// SPDX-License-Identifier: GPL-2.0-or-later
// The structure of the command line: which command, which options with which raw values, which
// words. What the values mean is for options.
#ifndef OPTIONS_ARGUMENTS_H
#define OPTIONS_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "spec/option.h"

enum {
    ARGUMENTS_QUOTE_BYTES = 64, // of a value that an error message shows; then comes "..."
    ARGUMENTS_QUOTED_BYTES = ARGUMENTS_QUOTE_BYTES * 4 + 4, // each byte as \xNN, "...", NUL
};

/// Request of the command line that replaces its command.
enum arguments_text { ARGUMENTS_NO_TEXT, ARGUMENTS_HELP, ARGUMENTS_VERSION };

struct arguments {
    enum arguments_command command;
    enum arguments_text text;
    const char *values[OPTION_COUNT];       // raw, the last one given; "" without a value; NULL
    const char *words[ARGUMENTS_WORDS_MAX]; // as many as the command takes; none for ARGUMENTS_RUN
};

/// Parses a command line in its order. argv[0] is the program's name and not looked at. --help and
/// --version act when met: what follows is not looked at, and words may be missing.
/// - Returns 0, or -EINVAL with failure filled in and *arguments untouched.
int arguments_parse(int argc, char **argv, struct arguments *arguments, struct failure *failure);

/// The option's name, without its hyphens.
const char *arguments_name(enum arguments_option option);

/// Writes at most ARGUMENTS_QUOTE_BYTES of a text with everything unprintable, '"' and '\' as \xNN,
/// then "..." if there was more. Returns quoted.
const char *arguments_quote(const char *text, char quoted[static ARGUMENTS_QUOTED_BYTES]);

#endif
