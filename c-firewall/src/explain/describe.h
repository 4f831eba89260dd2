// SPDX-License-Identifier: GPL-2.0-or-later
// Packets, rules and reasons in words, as `explain` and the ledger print them.
#ifndef EXPLAIN_DESCRIBE_H
#define EXPLAIN_DESCRIBE_H

#include <stdio.h>

#include "engine/compile.h"
#include "engine/decide.h"
#include "packet/packet.h"
#include "policy/policy.h"

/// Prints where a rule stands: "FILE:LINE". place: of the rule or one of its statements.
void describe_place(FILE *out, const struct policy *policy, struct compile_place place);

/// How many columns describe_place takes.
int describe_place_width(const struct policy *policy, struct compile_place place);

/// The same, filled up with blanks to a width.
void describe_place_padded(FILE *out, const struct policy *policy, struct compile_place place,
                           int width);

/// Prints a chain: "inet filter input".
void describe_chain(FILE *out, const struct policy *policy, struct compile_place place);

/// The rule, the statement at a place.
const struct policy_rule *describe_rule(const struct policy *policy, struct compile_place place);
const struct policy_statement *describe_statement(const struct policy *policy,
                                                  struct compile_place place);

/// Prints the rule's text on one line.
void describe_rule_text(FILE *out, const struct policy *policy, struct compile_place place);

/// Prints a packet: "10.0.0.1:40000 > 10.0.0.2:22 tcp syn, 60 bytes".
void describe_packet(FILE *out, const struct packet *packet, enum packet_status status);

/// The key that a match, a map or a vmap looks at; NULL for other statements.
const struct policy_key *describe_key_of(const struct policy_statement *statement);

/// Prints why a rule did not match: "ct state is new". step->why is not DECIDE_HELD.
/// - names: what the packet's client has shown.
/// - interface_name: the name of an index; "" = none.
void describe_why(FILE *out, const struct policy *policy, const struct decide_step *step,
                  const struct names *names,
                  const char *(*interface_name)(void *context, uint32_t index), void *context);

/// Prints what a reply says: "icmp port-unreachable", "tcp reset".
/// - version: of the packet's IP header, which POLICY_REJECT_ICMPX depends on.
void describe_reply(FILE *out, const struct policy_reject *reject, uint8_t version);

#endif
