// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of values, ranges and prefixes, and of the elements of sets and maps within braces.
#ifndef POLICY_PARSE_ELEMENTS_H
#define POLICY_PARSE_ELEMENTS_H

#include "policy/parse/state.h"

/// Properties that all elements of a set or map must have.
struct parse_shape {
    uint32_t count; // number of fields of an element's key
    enum policy_type types[POLICY_KEY_FIELDS_MAX];
    uint8_t bits[POLICY_KEY_FIELDS_MAX];
    enum policy_maps_to maps_to;
    // True if ranges and prefixes are not allowed, because the set is compared with a masked field.
    bool exact;
};

/// Component of a set element, or operand of a match: a range of values, and whether the policy
/// text wrote it as a range.
struct parse_component {
    struct policy_range range;
    // True if the text has a range, a prefix or a `*`, so that the range can have more than one
    // value.
    bool ranged;
};

/// Returns the required properties of the elements with which a key is compared.
struct parse_shape parse_elements_shape(const struct policy_key *key, enum policy_maps_to maps_to,
                                        bool exact);

/// Returns true if the values of a type have an order, so that ranges and `<` have a meaning.
bool parse_elements_is_ordered(enum policy_type type);

/// Parses one value. Both ends of the range are equal, except for an interface name with a `*`.
/// - Returns 0, -EINVAL or -ENOMEM, like each parsing function below.
int parse_elements_value(struct parser *parser, enum policy_type type, uint8_t bits,
                         struct policy_range *range);

/// Parses a value, a range or a prefix.
int parse_elements_component(struct parser *parser, enum policy_type type, uint8_t bits,
                             struct parse_component *component);

/// Finds the verdict that a token names: accept, drop, continue, return, jump or goto. Returns
/// false for other tokens.
/// - verdict: out: untouched on false.
bool parse_elements_find_verdict(const struct token *token, enum policy_verdict *verdict);

/// Parses the name of a chain after jump or goto, or nothing after other verdicts.
/// - word: the verdict's token, which was already consumed.
int parse_elements_target(struct parser *parser, const struct token *word,
                          enum policy_verdict verdict, struct policy_target *target);

/// Parses a single element without braces, and appends it to `elements`.
int parse_elements_single(struct parser *parser, const struct parse_shape *shape,
                          struct policy_elements *elements);

/// Parses `{` elements `}` and appends them. Line ends are allowed next to the braces and the
/// commas.
/// - ranged: out: true if an element was written with a range, prefix or `*`.
/// - place: out: place of the first element that was written so; untouched if ranged is false.
/// - After a failure the appended elements stay.
int parse_elements_read(struct parser *parser, const struct parse_shape *shape,
                        struct policy_elements *elements, bool *ranged, struct policy_place *place);

/// Makes room for another element, which is not counted yet. Returns 0 or -ENOMEM.
int parse_elements_room(struct parser *parser, enum policy_maps_to maps_to,
                        struct policy_elements *elements);

#endif
