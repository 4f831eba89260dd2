// SPDX-License-Identifier: GPL-2.0-or-later
// Single values of every type: conversion from text to number and back. rules/policy/GRAMMAR.md,
// "Values", specifies their syntax.
#ifndef POLICY_VALUE_H
#define POLICY_VALUE_H

#include <stdio.h>

#include "policy/policy.h"
#include "policy/token.h"

enum {
    VALUE_INTERFACE_BYTES = 16, // maximum size of an interface name with its final NUL (IFNAMSIZ)
    VALUE_SHORT_BYTES = 16,     // maximum length of the name of an ALPN protocol or of a method
};

/// Returns the value of a protocol's or method's name of at most VALUE_SHORT_BYTES bytes.
policy_value value_short(const uint8_t *name, size_t length);

/// Parses one token as a value: low and high are equal, except for an interface name with a `*` at
/// its end.
/// - bits: bits of the field or type; larger values are refused.
/// - Returns NULL with range filled in, or the error, for lexer_wrong (range untouched).
const char *value_parse(enum policy_type type, uint8_t bits, const struct token *token,
                        struct policy_range *range);

/// Finds the addresses of a prefix, whose bits beyond the length become 0. For POLICY_IPV4_ADDR and
/// POLICY_IPV6_ADDR.
/// - Returns NULL with range filled in, or the error of the length.
const char *value_prefix(enum policy_type type, policy_value address, uint64_t length,
                         struct policy_range *range);

/// Returns true if a token can begin a value: a word, number, address, string or wildcard.
bool value_begins(const struct token *token);

/// Returns the number of bits of a type's values; 32 for POLICY_INTEGER.
uint8_t value_bits(enum policy_type type);

/// Returns the largest number with this many bits.
policy_value value_max(uint8_t bits);

/// Returns true if a type is a mask of bits (tcp_flag, ct_state).
bool value_is_flags(enum policy_type type);

/// Finds a type by its name in sets, e.g. ipv4_addr. Returns false if sets can't have a type of
/// this name.
bool value_find_type(const struct token *token, enum policy_type *type);

/// Parses the code of `reject with icmp|icmpv6|icmpx`, a name or number (icmpx: an enum
/// policy_icmpx). kind is not POLICY_REJECT_TCP_RESET. Returns NULL with code filled in, or the
/// error.
const char *value_parse_reject(enum policy_reject_kind kind, const struct token *token,
                               uint8_t *code);

/// Returns the name of a reject's code, or NULL.
const char *value_reject_name(enum policy_reject_kind kind, uint8_t code);

/// Each converts a log level: its name to its number, or -1; its number to its name.
int value_find_level(const struct token *token);
const char *value_level_name(uint8_t level);

/// Each converts a unit: second, minute, hour, day or week to its seconds, or 0 for another text;
/// seconds to the unit's name.
uint64_t value_find_unit(const char *text, size_t length);
const char *value_unit_name(uint64_t seconds);

/// Prints a value. Flags are in the type's order, joined by `flags` ("," or " | "), 0 as 0x0.
void value_print(FILE *out, enum policy_type type, policy_value value, const char *flags);

/// Prints a range in its shortest form: a value (flags joined by ` | `), a prefix, `eth*`, or
/// low-high, with numbers where names could be read as one word.
void value_print_range(FILE *out, enum policy_type type, const struct policy_range *range);

/// Prints a mask: numbers in the type's form, integers as 0x without leading zeros, several flags
/// in parentheses.
void value_print_mask(FILE *out, enum policy_type type, policy_value mask);

#endif
