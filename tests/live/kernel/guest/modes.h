// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// What the program does beside tests.
#pragma once

/// Takes COUNT, FILE and NAME, says in a line how it went, and returns the exit code.
int loads(char **arguments);
/// Binds a UDP port of this machine and never reads, until it is killed; -1 if it can't.
int hold_port(const char *port);
