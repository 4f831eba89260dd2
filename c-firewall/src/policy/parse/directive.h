// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of `define` and `include`, which change the lexer's input.
#ifndef POLICY_PARSE_DIRECTIVE_H
#define POLICY_PARSE_DIRECTIVE_H

#include "policy/parse/lexer.h"

/// Parses the part after `define`: NAME, `=` and the value, up to the line end or `;` outside
/// braces, which is not consumed. Stores the definition.
/// - Returns 0, -EINVAL or -ENOMEM.
int directive_define(struct lexer *lexer);

/// Finds the path of the file that a token names. A relative path is relative to the folder of the
/// token's file. Returns 0 with the path, which the caller frees, or -errno with the failure set,
/// e.g. for a path with wildcards.
/// - name: out: the path, with a final NUL.
int directive_file_name(struct lexer *lexer, const struct token *path, char **name);

/// Parses the part after `include`: STRING END. The next tokens are those of the file; the file's
/// end counts as a line end.
/// - Returns 0, -EINVAL, -ENOMEM or -errno of reading.
int directive_include(struct lexer *lexer);

#endif
