// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of named sets and maps, and of elements that are added to them.
#ifndef POLICY_PARSE_SET_H
#define POLICY_PARSE_SET_H

#include "policy/parse/elements.h"
#include "policy/parse/state.h"

/// Returns the required properties of a declared set's elements.
struct parse_shape parse_set_shape(const struct policy_set *set);

/// Parses NAME `{` items `}` of a set or map, after its keyword.
/// - table: index of the table.
/// - Returns 0, -EINVAL, -ENOMEM, or -errno of reading a file of host names.
int parse_set_block(struct parser *parser, uint32_t table, bool is_map);

/// Parses NAME `{` elements `}` after `add element` and its table.
/// - Returns 0, -EINVAL or -ENOMEM.
int parse_set_add(struct parser *parser, uint32_t table);

#endif
