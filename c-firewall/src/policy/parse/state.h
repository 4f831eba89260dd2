// SPDX-License-Identifier: GPL-2.0-or-later
// What the parser's files share: the lexer, the policy so far, names, and what the rule being read
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
    PARSE_NFPROTO_IPV4 = 2, // values of enum nfproto (linux/netfilter.h)
    PARSE_NFPROTO_IPV6 = 10,
    PARSE_PROTOCOL_ICMP = 1, // numbers of protocols (RFC 5237)
    PARSE_PROTOCOL_TCP = 6,
    PARSE_PROTOCOL_UDP = 17,
    PARSE_TESTED_ANY = 0,       // nothing is known of a packet's protocol yet
    PARSE_TESTED_SEVERAL = 256, // several are possible, so that no field of one may be used
    PARSE_NO_NAME = -1,
    // The most statements of a rule, which nf_tables keeps in at most 128 expressions of 4095 bytes
    // together; a mark that is set counts as a field.
    PARSE_STATEMENTS_MAX = 32,
    PARSE_FIELDS_MAX = 24,
};

/// What names are of. Sets and maps share theirs.
enum parse_name_kind { PARSE_TABLE, PARSE_CHAIN, PARSE_SET };

/// Properties of a rule's packets that the statements so far imply.
struct parse_tested {
    enum policy_family family;
    uint16_t layer3;   // PARSE_NFPROTO_* or PARSE_TESTED_*
    uint16_t protocol; // PARSE_PROTOCOL_*, another protocol's number or PARSE_TESTED_*
    uint32_t fields;   // how many it looked at
};

struct parser {
    struct lexer lexer;
    struct policy policy;
    void *names; // tree (search.h) of what was declared
    uint32_t rules, elements, base_chains;
    uint32_t set_place_count;
    // The places of each @NAME in a rule. The index of the set in a match is one into this until it
    // is resolved.
    struct policy_place *set_places;
    struct parse_tested tested;
};

/// Frees all but the lexer's part.
void parse_state_free(struct parser *parser);

/// Fails for want of memory. Returns -ENOMEM.
int parse_no_memory(struct parser *parser);

/// Makes room for one more item, which is zeroed, in an array of count. Arrays grow to the next
/// power of two. Returns the array, which may have moved; NULL = no memory, and the array is as it
/// was.
void *parse_room(struct parser *parser, void *array, uint32_t count, size_t size);

/// The index under which a name is declared, or PARSE_NO_NAME.
/// - scope: of a table its family, else the index of its table.
int64_t parse_find_name(const struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                        const char *text, size_t length);

/// Declares a new name. Its text must live until the lexer is closed.
/// - Returns 0 or -ENOMEM.
int parse_add_name(struct parser *parser, enum parse_name_kind kind, uint32_t scope,
                   const struct token *name, uint32_t index);

/// Copies a token's text, which is shorter than POLICY_NAME_BYTES.
void parse_copy(char text[static POLICY_NAME_BYTES], const struct token *token);

/// Parses a name of the policy's own: a word that is not reserved. Returns 0 or -EINVAL, as the
/// next four.
int parse_name(struct parser *parser, const char *expected, struct token *name);

/// Takes a string.
int parse_string(struct parser *parser, char text[static POLICY_NAME_BYTES]);

/// Takes a sign, a word, or fails.
int parse_sign(struct parser *parser, enum token_sign sign, const char *expected);
int parse_word(struct parser *parser, const char *word, const char *expected);

/// Parses a number.
int parse_number(struct parser *parser, struct token *number);

/// Parses the part after `define` or `include`. Returns whether word is one of them; *status is
/// then the result.
bool parse_definition(struct parser *parser, const struct token *word, int *status);

/// Counts an element that begins with a token. Returns 0 or -EINVAL, as the next.
int parse_count_element(struct parser *parser, const struct token *token);

/// Notes that the rule looks at a field. Fails, at the token, if what the rule tested before
/// excludes the field.
int parse_test_field(struct parser *parser, const struct token *token, enum policy_field field);

/// Implied properties of packets before a rule's first statement.
struct parse_tested parse_tested(enum policy_family family);

/// Whether what is known excludes what is needed.
bool parse_excludes(uint16_t known, uint16_t needed);

/// Notes what a match says of the protocol.
void parse_learn(uint16_t *known, uint16_t told);

#endif
