// SPDX-License-Identifier: GPL-2.0-or-later
// Options of `explain`: metadata of a capture's packets. The comments of packets in captures have
// values in the same syntax.
#ifndef OPTIONS_EXPLAIN_H
#define OPTIONS_EXPLAIN_H

#include "options/types.h"
#include "options/values.h"

// Each of these functions parses one value, a text that ends with NUL, and sets its last argument.
// Returns true if it is valid; otherwise the last argument is untouched.

/// Parses the name of a hook.
/// - hook: out: untouched on failure.
bool options_explain_parse_hook(const char *text, enum policy_hook *hook);

/// Parses the name of an interface, which need not exist: 1 to OPTION_INTERFACE_BYTES_MAX bytes of
/// UTF-8.
bool options_explain_parse_interface(const char *text,
                                     char name[static OPTION_INTERFACE_BYTES_MAX + 1]);

/// Parses the numeric ID of a user or a group.
/// - id: out: untouched on failure.
bool options_explain_parse_id(const char *text, uint32_t *id);

/// Parses names of connection states, separated by commas.
/// - state: out: bits of all these states; untouched on failure.
bool options_explain_parse_ct_state(const char *text, uint32_t *state);

/// Stores the values and words of `explain`, in the order of the help text.
/// - Returns 0, or -EINVAL with failure filled in.
int options_explain_values(const struct values *values, struct options *options);

#endif
