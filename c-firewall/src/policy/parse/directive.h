// SPDX-License-Identifier: GPL-2.0-or-later
// `define` and `include`: what a policy's text says to its lexer.
#ifndef POLICY_PARSE_DIRECTIVE_H
#define POLICY_PARSE_DIRECTIVE_H

#include "policy/parse/lexer.h"

/// Parses the part after `define`: NAME, `=` and the value, up to the line end or `;` outside
/// braces, which is left. From then on the name is known.
/// - Returns 0 or -EINVAL.
int directive_define(struct lexer *lexer);

/// The name of a file that a token names: relative to the file that it stands in. Returns 0 with
/// the name, to be freed, or -errno with the failure told.
int directive_file_name(struct lexer *lexer, const struct token *path, char **name);

/// After `include` was taken: takes STRING END and goes on in that file, whose end reads as a line
/// end.
/// - Returns 0, -EINVAL, -ENOMEM or -errno of reading.
int directive_include(struct lexer *lexer);

#endif
