// SPDX-License-Identifier: GPL-2.0-or-later
// Policy text to policy: recursive descent over the tokens of lexer.h. rules/policy/GRAMMAR.md is
// what it takes; the first thing that is not in it ends with an error that tells the place.
//
// Theory of operation: parse (files, tables), chain, set, rule, matches and elements read the text
// once and build the policy. What is known then is checked then: values, ranges, protocols that
// exclude each other, literal sets. What needs the whole text (names of sets and chains, ways
// through chains, elements of named sets) is left to resolve.
#ifndef POLICY_PARSE_PARSE_H
#define POLICY_PARSE_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "policy/policy.h"

/// Reads a policy file with its includes, resolves its names and checks it.
/// - Returns 0; or -EINVAL (-errno of reading, -ENOMEM) with failure filled in: code
///   LOG_EXIT_USAGE, text "FILE:LINE:COLUMN: …" or "FILE: …"; policy is then untouched.
int parse_file(const char *path, struct policy *policy, struct failure *failure);

/// The same for a text from memory, which `name` stands for in messages; includes are relative to
/// its directory.
int parse_text(const char *name, const uint8_t *text, size_t bytes, struct policy *policy,
               struct failure *failure);

#endif
