// SPDX-License-Identifier: GPL-2.0-or-later
// The options of a daemon: what fails how, where it reports, who may operate it, which privileges
// it keeps. In the order of the help text.
#ifndef OPTIONS_DAEMON_H
#define OPTIONS_DAEMON_H

#include "options/types.h"
#include "options/values.h"

enum {
    OPTIONS_FAIL_BYTES = 96, // of options_fail_text with its final NUL
};

/// The modes as --fail takes them: open, closed, or those that are open. Returns text.
const char *options_fail_text(const struct options *options, char text[static OPTIONS_FAIL_BYTES]);

// Each returns 0, or -EINVAL with failure filled in.

/// The values of --default and --malformed, which `explain` takes too.
int options_daemon_decision(const struct values *values, struct options *options);

/// The value of --undecided, which `explain` takes too.
int options_daemon_undecided(const struct values *values, struct options *options);

/// The values of --undecided to --settled.
int options_daemon_names(const struct values *values, struct options *options);

/// --fail.
int options_daemon_fail(const struct values *values, struct options *options);

/// The values of --deadline to --sandbox.
int options_daemon_values(const struct values *values, struct options *options);

/// Searches for options that the profile paper excludes: it is the published program.
int options_daemon_paper(const struct values *values);

/// Searches for options that need another option.
int options_daemon_alone(const struct values *values);

#endif
