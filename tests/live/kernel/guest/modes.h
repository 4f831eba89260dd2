// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Modes of the program besides tests.
#pragma once

/// Parses COUNT, FILE and NAME, prints the result in a line, and returns the exit code.
int loads(char **arguments);
/// Binds a UDP port of this machine and never reads, until it is killed; -1 if it can't.
int hold_port(const char *port);
