// SPDX-License-Identifier: GPL-2.0-or-later
// The options of `explain`: what a capture's packets are taken for. Comments of captures tell it in
// the same words.
#ifndef OPTIONS_EXPLAIN_H
#define OPTIONS_EXPLAIN_H

#include "options/types.h"
#include "options/values.h"

// Each of these reads one value, as a text that ends with NUL, and sets its last argument. Returns
// whether it is one; else the last argument is untouched.

/// The name of a hook.
bool options_explain_read_hook(const char *text, enum policy_hook *hook);

/// The name of an interface, which there may not be: 1 to OPTION_INTERFACE_BYTES_MAX bytes of
/// UTF-8.
bool options_explain_read_interface(const char *text,
                                    char name[static OPTION_INTERFACE_BYTES_MAX + 1]);

/// The number of a user or a group.
bool options_explain_read_id(const char *text, uint32_t *id);

/// Names of states, with commas between.
bool options_explain_read_ct_state(const char *text, uint32_t *state);

/// Stores the values and words of `explain`, in the order of the help text.
/// - Returns 0, or -EINVAL with failure filled in.
int options_explain_values(const struct values *values, struct options *options);

#endif
