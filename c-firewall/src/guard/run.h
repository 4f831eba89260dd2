// SPDX-License-Identifier: GPL-2.0-or-later
// The guard's own process.
#ifndef GUARD_RUN_H
#define GUARD_RUN_H

/// Main function of the guard, for the first argument GUARD_COMMAND. Returns the exit code.
int guard_run(int argc, char **argv);

#endif
