// SPDX-License-Identifier: GPL-2.0-or-later
// Which system calls may be made. Every source file says which it makes once the program runs, in a
// line `seccomp: NAME…` (the guard's: `seccomp-guard: NAME…`); the list is made of these lines when
// the program is built.
#ifndef PRIVILEGE_SECCOMP_H
#define PRIVILEGE_SECCOMP_H

#include <stddef.h>

#include "base/log.h"

/// The process that a list of calls is for.
enum privilege_list { PRIVILEGE_FIREWALL, PRIVILEGE_GUARD, PRIVILEGE_LIST_COUNT };

/// Limits the calling thread, and those that it starts, to the calls of a list. Another call
/// ends the process by SIGSYS, behind a line on stderr that names it. Needs no_new_privs.
/// - Returns the number of calls that are allowed, or -errno with failure filled in.
int privilege_seccomp(enum privilege_list list, struct failure *failure);

#endif
