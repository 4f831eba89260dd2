// SPDX-License-Identifier: GPL-2.0-or-later
// Filter of system calls. Every source file lists the calls that it makes after the start, in a
// line `seccomp: NAME…` (for the guard: `seccomp-guard: NAME…`); the build collects these lines.
#ifndef PRIVILEGE_SECCOMP_H
#define PRIVILEGE_SECCOMP_H

#include <stddef.h>

#include "base/log.h"

/// Process that a list of allowed system calls belongs to.
enum privilege_list { PRIVILEGE_FIREWALL, PRIVILEGE_GUARD, PRIVILEGE_LIST_COUNT };

/// Limits the calling thread, and the threads that it starts, to the system calls of a list. Any
/// other call ends the process by SIGSYS, after a line on stderr that names the call. Needs
/// no_new_privs.
/// - Returns the number of calls in the list, or -errno with failure filled in.
int privilege_seccomp(enum privilege_list list, struct failure *failure);

#endif
