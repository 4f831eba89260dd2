// SPDX-License-Identifier: GPL-2.0-or-later
// The options of a daemon: what fails how, where it reports, who may operate it, which privileges
// it keeps. In the order of the help text.
#ifndef OPTIONS_DAEMON_H
#define OPTIONS_DAEMON_H

#include "given.h"
#include "options.h"

// Each returns 0, or -EINVAL with failure filled in.

/// --fail.
int options_daemon_fail(const struct given *given, struct options *options);

/// The values of --deadline to --sandbox.
int options_daemon_values(const struct given *given, struct options *options);

/// Looks for what the profile paper does without: it is the published program.
int options_daemon_paper(const struct given *given);

/// Looks for what has no meaning without another option.
int options_daemon_alone(const struct given *given);

#endif
