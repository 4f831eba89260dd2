// SPDX-License-Identifier: GPL-2.0-or-later
// State of the parser: the lexer, the policy so far, names, and properties that the current rule
// has tested.
#ifndef POLICY_PARSE_STATE_H
#define POLICY_PARSE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/parse/lexer.h"
#include "policy/policy.h"
#include "policy/token.h"

enum {
    PARSE_NFPROTO_IPV4 = 2, // values of NFPROTO_* (linux/netfilter.h)
    PARSE_NFPROTO_IPV6 = 10,
    PARSE_PROTOCOL_ICMP = 1, // numbers of protocols (RFC 5237)
    PARSE_PROTOCOL_TCP = 6,
    PARSE_PROTOCOL_UDP = 17,
    PARSE_TESTED_ANY = 0, // the matches so far imply no protocol
    // The matches so far allow several protocols, so that no field of a single protocol may be
    // used.
    PARSE_TESTED_SEVERAL = 256,
    PARSE_NO_NAME = -1,
    // Maximum number of statements of a rule: nf_tables has room for 128 expressions of 4095 bytes
    // together.
    PARSE_STATEMENTS_MAX = 32,
    // Maximum number of fields of a rule: nf_tables has room for 128 expressions of 4095 bytes
    // together. A new mark counts as a field.
    PARSE_FIELDS_MAX = 24,
};

/// Kinds of names. Sets and maps share a kind.
enum parse_name_kind { PARSE_TABLE, PARSE_CHAIN, PARSE_SET };

/// Properties of packets that the statements of the current rule so far imply.
struct parse_tested {
    enum policy_family family;
    // Protocol of layer 3 that the table and the matches so far imply: PARSE_NFPROTO_*,
    // PARSE_TESTED_ANY for none, or PARSE_TESTED_SEVERAL.
    uint16_t layer3;
    // Protocol of layer 4 that the matches so far imply: its number, PARSE_TESTED_ANY for none, or
    // PARSE_TESTED_SEVERAL.
    uint16_t protocol;
    uint32_t fields; // number of fields that the rule has read so far
    // True for the fields after `typeof`: no field excludes another field there.
    bool is_typeof;
};

struct parser {
    struct lexer lexer;
    struct policy policy;
    void *names; // declared names, as a tree (search.h)
    uint32_t rules, elements, base_chains;
    uint32_t set_place_count;
    // Place of each @NAME in all rules. Until a match's @NAME is resolved, the match's `set` is an
    // index into this list.
    struct policy_place *set_places;
    struct parse_tested tested;
};

/// Frees everything that a parser owns, except its lexer.
void parse_state_free(struct parser *parser);

/// Sets the failure that there is no memory. Returns -ENOMEM.
int parse_no_memory(struct parser *parser);

/// Makes room for another, zeroed item in an array of count items. Arrays grow to the next power of
/// two. Returns the array, which may have moved; NULL = no memory, and the array is unchanged.
void *parse_room(struct parser *parser, void *array, uint32_t count, size_t size);

/// Returns the index with which a name is declared, or PARSE_NO_NAME.
/// - scope: the family of a table; for other names, the index of their table.
int64_t parse_find_name(const struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                        const char *text, size_t length);

/// Declares a new name. Its text must live until the lexer is closed.
/// - Returns 0 or -ENOMEM.
int parse_add_name(struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                   const struct token *name, uint32_t index);

/// Copies a token's text, which is shorter than POLICY_NAME_BYTES.
void parse_copy(char text[static POLICY_NAME_BYTES], const struct token *token);

/// Parses a name: a word that is not reserved. Returns 0 or -EINVAL, like the next four functions.
int parse_name(struct parser *parser, const char *expected, struct token *name);

/// Parses a string, or a word that is not reserved.
int parse_string(struct parser *parser, char text[static POLICY_NAME_BYTES]);

/// Each consumes the next token. Fails if it is not this sign or this word.
int parse_sign(struct parser *parser, enum token_sign sign, const char *expected);
int parse_word(struct parser *parser, const char *word, const char *expected);

/// Parses a number.
int parse_number(struct parser *parser, struct token *number);

/// Parses the part after `define` or `include`. Returns false if the word is neither; otherwise
/// *status is the result.
/// - status: out: untouched on false.
bool parse_definition(struct parser *parser, const struct token *word, int *status);

/// Counts an element of a set. Fails, at the element's first token, if all sets together have more
/// than POLICY_ELEMENTS_MAX elements. Returns 0 or -EINVAL.
int parse_count_element(struct parser *parser, const struct token *token);

/// Chooses between two fields with the same text, such as `icmp type` of IPv4 packets and
/// `icmp type` of packets of any family. Returns the field of any family if the table and the
/// statements so far imply another family than the given field's, or several families, or no family
/// but the field's protocol. Otherwise, or if no other field has this text, returns the given
/// field. nft adds a test of a field's family only if neither a family nor the field's protocol is
/// known.
enum policy_field parse_family_field(const struct parse_tested *tested, enum policy_field field);

/// Counts a field of the rule, and records the protocols that the field implies. Fails at the token
/// if the rule has too many fields, or if its table or its earlier matches exclude the field. After
/// `typeof`, only counts the field. Returns 0 or -EINVAL.
int parse_test_field(struct parser *parser, const struct token *token, enum policy_field field);

/// Returns the properties of packets before a rule's first statement: those that the table's family
/// implies.
struct parse_tested parse_tested(enum policy_family family);

/// Returns true if the known protocol excludes the needed protocol: the two differ, and neither is
/// PARSE_TESTED_ANY.
bool parse_excludes(uint16_t known, uint16_t needed);

/// Records the protocol that a match implies. Records PARSE_TESTED_SEVERAL if another protocol is
/// known.
/// - known: in/out: protocol that is known so far.
/// - told: protocol that the match implies; PARSE_TESTED_ANY = none.
void parse_learn(uint16_t *known, uint16_t told);

#endif
