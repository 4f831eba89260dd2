// SPDX-License-Identifier: GPL-2.0-or-later
// Single values of every type: text to number and back. rules/policy/GRAMMAR.md, "Values", says
// how each is written and printed.
#ifndef POLICY_VALUE_H
#define POLICY_VALUE_H

#include <stdio.h>

#include "policy/policy.h"
#include "policy/token.h"

enum {
    VALUE_INTERFACE_BYTES = 16, // of an interface name with its final NUL (IFNAMSIZ)
    VALUE_SHORT_BYTES = 16,     // of the name of a protocol of ALPN or of a method, at most
};

/// The value of a protocol's or method's name of at most VALUE_SHORT_BYTES bytes.
policy_value value_short(const uint8_t *name, size_t length);

/// Reads one token as a value: low and high are equal, but for an interface name with a `*` at its
/// end.
/// - bits: of the field or type; what is larger is refused.
/// - Returns NULL with range filled in, or why the token is no such value, for lexer_wrong (range
///   untouched).
const char *value_parse(enum policy_type type, uint8_t bits, const struct token *token,
                        struct policy_range *range);

/// The addresses of a prefix: low's bits beyond the length become 0. For POLICY_IPV4_ADDR and
/// POLICY_IPV6_ADDR.
/// - Returns NULL with range filled in, or why not.
const char *value_prefix(enum policy_type type, policy_value address, uint64_t length,
                         struct policy_range *range);

/// Whether a token can begin a value at all: a word, number, address, string, wildcard.
bool value_begins(const struct token *token);

/// The bits of a type's values; of POLICY_INTEGER 32.
uint8_t value_bits(enum policy_type type);

/// The largest number of so many bits.
policy_value value_max(uint8_t bits);

/// Whether a type is a mask of bits (tcp_flag, ct_state).
bool value_is_flags(enum policy_type type);

/// A type as it is named in a set, e.g. ipv4_addr; false if there is none of that name that sets
/// can have.
bool value_find_type(const struct token *token, enum policy_type *type);

/// The code of `reject with icmp|icmpv6|icmpx`, by name (icmpx: an enum policy_icmpx) or number.
/// kind is not POLICY_REJECT_TCP_RESET. Returns NULL with code filled in, or why not.
const char *value_parse_reject(enum policy_reject_kind kind, const struct token *token,
                               uint8_t *code);

/// The name of such a code, or NULL.
const char *value_reject_name(enum policy_reject_kind kind, uint8_t code);

/// The number of a log level by its name, or -1; the name of one.
int value_find_level(const struct token *token);
const char *value_level_name(uint8_t level);

/// Seconds of second, minute, hour, day, week, or 0 if the text is none of them; the name of such
/// a number of seconds.
uint64_t value_find_unit(const char *text, size_t length);
const char *value_unit_name(uint64_t seconds);

/// Prints a value. Flags come in the type's order, joined by `flags` ("," or " | "), 0 as 0x0.
void value_print(FILE *out, enum policy_type type, policy_value value, const char *flags);

/// Prints a range in its shortest form: the value (flags joined by ` | `), the prefix, `eth*`,
/// low-high, with numbers where names could be taken for one word.
void value_print_range(FILE *out, enum policy_type type, const struct policy_range *range);

/// Prints a mask: numbers in the type's own form, integers as 0x without leading zeros, several
/// flags in parentheses.
void value_print_mask(FILE *out, enum policy_type type, policy_value mask);

#endif
