// SPDX-License-Identifier: GPL-2.0-or-later
// Options of a running firewall: names, failure modes, reports, access, privileges. They are
// checked in the order of the help text.
#ifndef OPTIONS_DAEMON_H
#define OPTIONS_DAEMON_H

#include "options/types.h"
#include "options/values.h"

enum {
    OPTIONS_FAIL_BYTES = 96, // maximum size of the result of options_fail_text with its final NUL
};

/// Writes the failure modes in the format of --fail: open, closed, or a list of the open
/// situations. Returns text.
const char *options_fail_text(const struct options *options, char text[static OPTIONS_FAIL_BYTES]);

// Each function returns 0, or -EINVAL with failure filled in.

/// Stores the values of --default and --malformed, which `explain` has, too.
int options_daemon_decision(const struct values *values, struct options *options);

/// Stores the value of --undecided, which `explain` has, too.
int options_daemon_undecided(const struct values *values, struct options *options);

/// Stores the values of the options that the help text lists from --undecided to --settled.
int options_daemon_names(const struct values *values, struct options *options);

/// Stores the value of --fail.
int options_daemon_fail(const struct values *values, struct options *options);

/// Stores the values of the options that the help text lists from --deadline to --sandbox.
int options_daemon_values(const struct values *values, struct options *options);

/// Checks that --events, --control and --take-over are not given. --profile paper excludes them,
/// because the published program has no such functions.
int options_daemon_paper(const struct values *values);

/// Checks that --events-rate is not given without --events, and --control-mode and --control-owner
/// not without --control.
int options_daemon_alone(const struct values *values);

#endif
