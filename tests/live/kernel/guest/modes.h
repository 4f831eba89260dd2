// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Modes of the program besides tests.
#pragma once

/// Loads and unloads a module many times, and prints the result in a line. Returns the exit code.
/// - arguments: COUNT, MODULE.ko and NAME.
int loads(char **arguments);
/// Binds a UDP port of the loopback address and never reads, until it is killed. Returns -1 on an
/// error.
int hold_port(const char *port);
