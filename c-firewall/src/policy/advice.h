// SPDX-License-Identifier: GPL-2.0-or-later
// Report on a policy's files of host names, and warnings about parts of a valid policy that most
// likely have less effect than they seem to have, one line each.
#ifndef POLICY_ADVICE_H
#define POLICY_ADVICE_H

#include "policy/policy.h"

/// Reports one line for each file of host names: its numbers of lines, of names, of skipped names
/// (those of the machine itself, such as localhost), and of left-out lines (those of an unknown
/// format). Omits each of the last two if it is 0.
void advice_report(const struct policy *policy, void (*tell)(const char *text));

/// Warns, one line each, about parts that most likely have less effect than intended: rules that
/// read names (tls, http or dns fields) after a rule that accepts established connections,
/// `reject with tcp reset` of TLS names, and files of host names without names or with many unused
/// lines.
void advice_advise(const struct policy *policy, void (*tell)(const char *text));

#endif
