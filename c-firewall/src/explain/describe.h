// SPDX-License-Identifier: GPL-2.0-or-later
// Descriptions of packets, rules and reasons in words, for `explain`, events and reports.
#ifndef EXPLAIN_DESCRIBE_H
#define EXPLAIN_DESCRIBE_H

#include <stdio.h>

#include "engine/compile.h"
#include "engine/decide.h"
#include "packet/packet.h"
#include "policy/policy.h"

/// Prints the position of a rule: "FILE:LINE".
/// - place: position of the rule, or of one of its statements.
void describe_place(FILE *out, const struct policy *policy, struct compile_place place);

/// Returns the width of a rule's position in bytes.
int describe_place_width(const struct policy *policy, struct compile_place place);

/// Prints the position of a rule, padded with blanks to a width.
void describe_place_padded(FILE *out, const struct policy *policy, struct compile_place place,
                           int width);

/// Prints the family and name of a chain's table and the chain's name: "inet filter input".
void describe_chain(FILE *out, const struct policy *policy, struct compile_place place);

/// Returns the rule (describe_rule) or the statement (describe_statement) at a position in the
/// policy.
const struct policy_rule *describe_rule(const struct policy *policy, struct compile_place place);
const struct policy_statement *describe_statement(const struct policy *policy,
                                                  struct compile_place place);

/// Prints a rule's text on one line.
void describe_rule_text(FILE *out, const struct policy *policy, struct compile_place place);

/// Prints the description of a packet: "10.0.0.1:40000 > 10.0.0.2:22 tcp syn, 60 bytes".
void describe_packet(FILE *out, const struct packet *packet, enum packet_status status);

/// Returns the key of a match, a map or a vmap; NULL for other statements.
const struct policy_key *describe_key_of(const struct policy_statement *statement);

/// Prints the reason why a rule did not match: "ct state is new". step->why is not DECIDE_HELD.
/// - names: names that the packet's client has shown.
/// - interface_name: returns the name of an index; "" = none.
void describe_why(FILE *out, const struct policy *policy, const struct decide_step *step,
                  const struct names *names,
                  const char *(*interface_name)(void *context, uint32_t index), void *context);

/// Prints the description of a reply: "icmp port-unreachable", "tcp reset".
/// - version: version of the packet's IP header, which selects icmp or icmpv6.
void describe_reply(FILE *out, const struct policy_reject *reject, uint8_t version);

#endif
