// SPDX-License-Identifier: GPL-2.0-or-later
// What was read of a policy's lists, and what in a valid policy most likely does less than it seems
// to, each in one line.
#ifndef POLICY_ADVICE_H
#define POLICY_ADVICE_H

#include "policy/policy.h"

/// Reports, a line a file, how much was read of the files of names.
void advice_report(const struct policy *policy, void (*tell)(const char *text));

/// Tells, line by line, what a policy that was parsed most likely does not do as it is meant: rules
/// by name behind one that accepts established connections, `reject with tcp reset` of names of
/// TLS, and files of names of which little was read.
void advice_advise(const struct policy *policy, void (*tell)(const char *text));

#endif
