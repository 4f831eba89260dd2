// SPDX-License-Identifier: GPL-2.0-or-later
// The guard's own process.
#ifndef GUARD_RUN_H
#define GUARD_RUN_H

/// What main does if the first argument is GUARD_COMMAND. Returns the exit code.
int guard_run(int argc, char **argv);

#endif
