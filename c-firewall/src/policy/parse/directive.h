// SPDX-License-Identifier: GPL-2.0-or-later
// `define` and `include`: what a policy's text says to its lexer.
#ifndef POLICY_PARSE_DIRECTIVE_H
#define POLICY_PARSE_DIRECTIVE_H

#include "policy/parse/lexer.h"

/// Takes what follows `define`: NAME, `=` and the value, up to the line end or `;` outside braces,
/// which is left. From then on the name is known.
/// - Returns 0 or -EINVAL.
int directive_define(struct lexer *lexer);

/// Takes what follows `include`: STRING END. The next tokens are those of that file; its end reads
/// as a line end.
/// - Returns 0, -EINVAL, -ENOMEM or -errno of reading.
int directive_include(struct lexer *lexer);

#endif
