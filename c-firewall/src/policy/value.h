// SPDX-License-Identifier: GPL-2.0-or-later
// Single values of every type except host names: conversion from text to number and back.
// rules/policy/GRAMMAR.md, "Values", specifies their syntax.
#ifndef POLICY_VALUE_H
#define POLICY_VALUE_H

#include <stdio.h>

#include "policy/policy.h"
#include "policy/token.h"

enum {
    VALUE_INTERFACE_BYTES = 16, // maximum size of an interface name with its final NUL (IFNAMSIZ)
    // Maximum length of the name of an ALPN protocol or an HTTP method, in bytes.
    VALUE_SHORT_BYTES = 16,
};

/// Returns the value of the name of an ALPN protocol or an HTTP method: its bytes, NUL-padded, as a
/// big-endian number. The name has at most VALUE_SHORT_BYTES bytes.
policy_value value_short(const uint8_t *name, size_t length);

/// Parses one token as a value: low and high are equal, except for an interface name with a `*` at
/// its end.
/// - bits: number of bits of the field or type; larger numbers are refused.
/// - Returns NULL with range filled in, or the cause, for the message of lexer_wrong (range
///   untouched).
const char *value_parse(enum policy_type type, uint8_t bits, const struct token *token,
                        struct policy_range *range);

/// Finds the range of addresses of a prefix. Ignores bits of the address after the prefix's length.
/// - type: POLICY_IPV4_ADDR or POLICY_IPV6_ADDR.
/// - Returns NULL with range filled in, or the error text if the length is too large.
const char *value_prefix(enum policy_type type, policy_value address, uint64_t length,
                         struct policy_range *range);

/// Returns true if a token can begin a value: a word, number, address, string or wildcard.
bool value_begins(const struct token *token);

/// Returns the number of bits of a type's values; 32 for POLICY_INTEGER.
uint8_t value_bits(enum policy_type type);

/// Returns the largest number with this many bits.
policy_value value_max(uint8_t bits);

/// Returns true if a value of the type is a set of bits (tcp_flag, ct_state).
bool value_is_flags(enum policy_type type);

/// Finds a type by its name in sets, e.g. ipv4_addr. Returns false if sets can't have a type of
/// this name.
/// - type: out: untouched on false.
bool value_find_type(const struct token *token, enum policy_type *type);

/// Parses the code of `reject with icmp|icmpv6|icmpx`, a name or number (icmpx: an enum
/// policy_icmpx). kind is not POLICY_REJECT_TCP_RESET. Returns NULL with code filled in, or the
/// error text.
const char *value_parse_reject(enum policy_reject_kind kind, const struct token *token,
                               uint8_t *code);

/// Returns the name of a reject's code, or NULL.
const char *value_reject_name(enum policy_reject_kind kind, uint8_t code);

/// Each converts a log level. value_find_level: the name to the number; -1 for other tokens.
/// value_level_name: the number to the name.
int value_find_level(const struct token *token);
const char *value_level_name(uint8_t level);

/// Each converts a unit of time: second, minute, hour, day or week. value_find_unit: the name to
/// the number of seconds; 0 for other texts. value_unit_name: the number of seconds to the name.
uint64_t value_find_unit(const char *text, size_t length);
const char *value_unit_name(uint64_t seconds);

/// Prints a value. Flags are in the type's order, joined by `flags` ("," or " | "), 0 as 0x0.
void value_print(FILE *out, enum policy_type type, policy_value value, const char *flags);

/// Prints a range in its shortest form: a value (flags joined by ` | `), a prefix, `eth*`, or
/// low-high. low and high are printed as numbers, not by name (except TLS versions), because names
/// joined by `-` could be read as one word.
void value_print_range(FILE *out, enum policy_type type, const struct policy_range *range);

/// Prints a mask: a number in the type's form, an integer in hexadecimal without leading zeros,
/// several flags in parentheses.
void value_print_mask(FILE *out, enum policy_type type, policy_value mask);

#endif
