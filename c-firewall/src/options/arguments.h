// SPDX-License-Identifier: GPL-2.0-or-later
// The structure of the command line: which command, which options with which raw values, which
// words. What the values mean is for options.
#ifndef OPTIONS_ARGUMENTS_H
#define OPTIONS_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum {
    ARGUMENTS_QUOTE_BYTES = 64, // of a value that an error message shows; then comes "..."
    ARGUMENTS_QUOTED_BYTES = ARGUMENTS_QUOTE_BYTES * 4 + 4, // each byte as \xNN, "...", NUL
    ARGUMENTS_WORDS_MAX = 2,                                // that any command takes
};

/// The command: the first argument, if it is `check` or `explain`.
enum arguments_command { ARGUMENTS_RUN, ARGUMENTS_CHECK, ARGUMENTS_EXPLAIN };

/// The options with a meaning of their own, in the order in which their values are looked at: that
/// of the help text.
enum arguments_option {
    OPTION_QUEUE,
    OPTION_PIN,
    OPTION_BACKEND,
    OPTION_PROFILE,
    OPTION_COPY_BYTES,
    OPTION_BATCH,
    OPTION_RECEIVE_BUFFER,
    OPTION_QUEUE_LENGTH,
    OPTION_GSO,
    OPTION_SPIN,
    OPTION_COALESCE,
    OPTION_POLICY,
    OPTION_DEFAULT,
    OPTION_MALFORMED,
    OPTION_CONNTRACK,
    OPTION_FAIL,
    OPTION_DEADLINE,
    OPTION_STATS,
    OPTION_JSON,
    OPTION_METRICS,
    OPTION_EVENTS,
    OPTION_EVENTS_RATE,
    OPTION_LOG_LEVEL,
    OPTION_CONTROL,
    OPTION_CONTROL_MODE,
    OPTION_CONTROL_OWNER,
    OPTION_TAKE_OVER,
    OPTION_USER,
    OPTION_SANDBOX,
    OPTION_PRINT,
    OPTION_HOOK,
    OPTION_IIF,
    OPTION_OIF,
    OPTION_MARK,
    OPTION_UID,
    OPTION_GID,
    OPTION_CT_STATE,
    OPTION_CT_MARK,
    OPTION_COUNT
};

/// What the command line asks for instead of its command.
enum arguments_text { ARGUMENTS_NO_TEXT, ARGUMENTS_HELP, ARGUMENTS_VERSION };

struct arguments {
    enum arguments_command command;
    enum arguments_text text;
    const char *values[OPTION_COUNT];       // raw, the last one given; "" without a value; NULL
    const char *words[ARGUMENTS_WORDS_MAX]; // as many as the command takes; none for ARGUMENTS_RUN
};

/// Takes a command line in its order. argv[0] is the program's name and not looked at. --help and
/// --version act when met: what follows is not looked at, and words may be missing.
/// - Returns 0, or -EINVAL with failure filled in and *arguments untouched.
int arguments_parse(int argc, char **argv, struct arguments *arguments, struct failure *failure);

/// The option's name, without its hyphens.
const char *arguments_name(enum arguments_option option);

/// Writes at most ARGUMENTS_QUOTE_BYTES of a text with everything unprintable, '"' and '\' as \xNN,
/// then "..." if there was more. Returns quoted.
const char *arguments_quote(const char *text, char quoted[static ARGUMENTS_QUOTED_BYTES]);

#endif
