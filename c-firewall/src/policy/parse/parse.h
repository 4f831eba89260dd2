// SPDX-License-Identifier: GPL-2.0-or-later
// Parser from policy text to policy: recursive descent over the tokens of lexer.h.
// rules/policy/GRAMMAR.md specifies the language; the first violation ends parsing with an error at
// its place.
//
// Theory of operation: parse (files, tables), chain, set, rule, matches and elements read the text
// once and build the policy. They check everything that is known at that point: values, ranges,
// protocols that exclude each other, literal sets. Checks that need the complete text (names of
// sets and chains, paths through chains, elements of named sets) are left to resolve.
#ifndef POLICY_PARSE_PARSE_H
#define POLICY_PARSE_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "policy/policy.h"

/// Parses a policy file with its includes, resolves its names and checks it.
/// - Returns 0; or -EINVAL or -errno of reading with failure filled in: code LOG_EXIT_USAGE, text
///   "FILE:LINE:COLUMN: …" or "FILE: …"; or -ENOMEM with code LOG_EXIT_CALL. On failure, policy is
///   untouched.
int parse_file(const char *path, struct policy *policy, struct failure *failure);

/// Parses a policy text in memory, like parse_file. Messages show `name` as its file name. Included
/// files are relative to the folder of `name`.
int parse_text(const char *name, const uint8_t *text, size_t bytes, struct policy *policy,
               struct failure *failure);

#endif
