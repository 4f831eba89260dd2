// SPDX-License-Identifier: GPL-2.0-or-later
// Syntax of the command line: command, options with their raw values, and words (arguments that are
// not options). options checks the values.
#ifndef OPTIONS_ARGUMENTS_H
#define OPTIONS_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "spec/option.h"

enum {
    // Maximum number of bytes of a value that an error message shows, before "...".
    ARGUMENTS_QUOTE_BYTES = 64,
    // Maximum size of a quoted text: each byte as \xNN, "...", NUL.
    ARGUMENTS_QUOTED_BYTES = ARGUMENTS_QUOTE_BYTES * 4 + 4,
};

/// Option that is executed instead of the command: --help or --version.
enum arguments_text { ARGUMENTS_NO_TEXT, ARGUMENTS_HELP, ARGUMENTS_VERSION };

struct arguments {
    enum arguments_command command;
    enum arguments_text text;
    // Raw value of each option: the last value, if the option is given several times; "" for an
    // option without a value; NULL = not given.
    const char *values[OPTION_COUNT];
    // Words of the command: arguments that are not options; none for ARGUMENTS_RUN.
    const char *words[ARGUMENTS_WORDS_MAX];
};

/// Parses a command line in its order. argv[0], the program's name, is ignored. --help and
/// --version take effect at once: later arguments are ignored, and words may be missing.
/// - Returns 0, or -EINVAL with failure filled in and *arguments untouched.
int arguments_parse(int argc, char **argv, struct arguments *arguments, struct failure *failure);

/// Returns an option's name without its hyphens.
const char *arguments_name(enum arguments_option option);

/// Writes at most ARGUMENTS_QUOTE_BYTES of a text, with '"', '\' and bytes that are not printable
/// ASCII as \xNN, and "..." if the text was cut. Returns quoted.
const char *arguments_quote(const char *text, char quoted[static ARGUMENTS_QUOTED_BYTES]);

#endif
