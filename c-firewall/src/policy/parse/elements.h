// SPDX-License-Identifier: GPL-2.0-or-later
// Values, ranges and prefixes; the elements of sets and maps between their braces.
#ifndef POLICY_PARSE_ELEMENTS_H
#define POLICY_PARSE_ELEMENTS_H

#include "policy/parse/state.h"

/// What the elements of a set or map look like.
struct parse_shape {
    uint32_t count; // of fields
    enum policy_type types[POLICY_KEY_FIELDS_MAX];
    uint8_t bits[POLICY_KEY_FIELDS_MAX];
    enum policy_maps_to maps_to;
    bool exact; // neither ranges nor prefixes: the set is compared with a masked field
};

/// A range, and how it was written.
struct parse_component {
    struct policy_range range;
    bool ranged; // as a range, prefix or with a `*`: more than one value could stand there
};

/// The shape of what a key is looked up in.
struct parse_shape parse_elements_shape(const struct policy_key *key, enum policy_maps_to maps_to,
                                        bool exact);

/// Whether values of a type stand in an order, so that ranges and `<` mean something.
bool parse_elements_is_ordered(enum policy_type type);

/// Takes one value; the range is more than one number for an interface name with a `*`.
/// - Returns 0 or -EINVAL, as all that take something here; or -ENOMEM.
int parse_elements_value(struct parser *parser, enum policy_type type, uint8_t bits,
                         struct policy_range *range);

/// Takes a value, a range or a prefix.
int parse_elements_component(struct parser *parser, enum policy_type type, uint8_t bits,
                             struct parse_component *component);

/// The verdict that a token says. Whether it does.
bool parse_elements_find_verdict(const struct token *token, enum policy_verdict *verdict);

/// Takes the name of a chain after jump or goto, or nothing after other verdicts.
/// - word: the verdict's token, taken already.
int parse_elements_target(struct parser *parser, const struct token *word,
                          enum policy_verdict verdict, struct policy_target *target);

/// Takes `{` elements `}` and appends them. Line ends stand beside the braces and the commas.
/// - ranged: set to whether an element was written with a range, prefix or `*`; place to that of
///   the first.
/// - Of a failure, what was appended stays.
int parse_elements_read(struct parser *parser, const struct parse_shape *shape,
                        struct policy_elements *elements, bool *ranged, struct policy_place *place);

/// Makes room for one more element, which is not counted yet. Returns 0 or -ENOMEM.
int parse_elements_room(struct parser *parser, enum policy_maps_to maps_to,
                        struct policy_elements *elements);

#endif
