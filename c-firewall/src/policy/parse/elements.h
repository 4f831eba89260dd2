// SPDX-License-Identifier: GPL-2.0-or-later
// Values, ranges and prefixes; the elements of sets and maps between their braces.
#ifndef POLICY_PARSE_ELEMENTS_H
#define POLICY_PARSE_ELEMENTS_H

#include "policy/parse/state.h"

/// Form of the elements of a set or map.
struct parse_shape {
    uint32_t count; // of fields
    enum policy_type types[POLICY_KEY_FIELDS_MAX];
    uint8_t bits[POLICY_KEY_FIELDS_MAX];
    enum policy_maps_to maps_to;
    bool exact; // no ranges or prefixes, since the set is compared with a masked field
};

/// A range, and how it was written.
struct parse_component {
    struct policy_range range;
    bool ranged; // as a range, a prefix or with a `*`, so it can be more than one value
};

/// The shape of what a key is looked up in.
struct parse_shape parse_elements_shape(const struct policy_key *key, enum policy_maps_to maps_to,
                                        bool exact);

/// Whether values of a type have an order, so that ranges and `<` make sense.
bool parse_elements_is_ordered(enum policy_type type);

/// Parses one value; the range is more than one number for an interface name with a `*`.
/// - Returns 0, -EINVAL or -ENOMEM, as does each function below that takes something.
int parse_elements_value(struct parser *parser, enum policy_type type, uint8_t bits,
                         struct policy_range *range);

/// Parses a value, a range or a prefix.
int parse_elements_component(struct parser *parser, enum policy_type type, uint8_t bits,
                             struct parse_component *component);

/// Finds the verdict that a token names. Returns whether it names one.
bool parse_elements_find_verdict(const struct token *token, enum policy_verdict *verdict);

/// Parses the name of a chain after jump or goto, or nothing after other verdicts.
/// - word: the verdict's token, taken already.
int parse_elements_target(struct parser *parser, const struct token *word,
                          enum policy_verdict verdict, struct policy_target *target);

/// Parses a single element without braces.
int parse_elements_single(struct parser *parser, const struct parse_shape *shape,
                          struct policy_elements *elements);

/// Parses `{` elements `}` and appends them. Line ends may stand next to the braces and the commas.
/// - ranged: set to whether an element was written with a range, prefix or `*`; place to that of
///   the first.
/// - After a failure, what was appended stays.
int parse_elements_read(struct parser *parser, const struct parse_shape *shape,
                        struct policy_elements *elements, bool *ranged, struct policy_place *place);

/// Makes room for one more element, which is not counted yet. Returns 0 or -ENOMEM.
int parse_elements_room(struct parser *parser, enum policy_maps_to maps_to,
                        struct policy_elements *elements);

#endif
