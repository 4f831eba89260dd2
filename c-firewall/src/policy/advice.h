// SPDX-License-Identifier: GPL-2.0-or-later
// Report on a policy's files of host names, and warnings about parts of a valid policy that most
// likely have less effect than they seem to have, one line each.
#ifndef POLICY_ADVICE_H
#define POLICY_ADVICE_H

#include "policy/policy.h"

/// Reports the numbers of lines, names, skipped names and left-out lines of each file of names, one
/// line per file.
void advice_report(const struct policy *policy, void (*tell)(const char *text));

/// Warns, one line each, about parts that most likely have less effect than intended: rules by name
/// after a rule that accepts established connections, `reject with tcp reset` of TLS names, and
/// files of names without names or with many unused lines.
void advice_advise(const struct policy *policy, void (*tell)(const char *text));

#endif
