// SPDX-License-Identifier: GPL-2.0-or-later
// Main program of the guard's process.
#ifndef GUARD_RUN_H
#define GUARD_RUN_H

/// Main program of the guard, run if the first argument is GUARD_COMMAND. Returns the exit code.
int guard_run(int argc, char **argv);

#endif
