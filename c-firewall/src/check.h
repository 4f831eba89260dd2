// SPDX-License-Identifier: GPL-2.0-or-later
// `check`: whether a policy is sound.
#ifndef CHECK_H
#define CHECK_H

#include "options.h"

/// Prints "ok", or with options->print the canonical text, or what is wrong. Returns the exit code.
int check_run(const struct options *options);

#endif
