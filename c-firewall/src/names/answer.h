// SPDX-License-Identifier: GPL-2.0-or-later
// DNS messages with the addresses of a name: the question, and in an answer the addresses that lead
// from it. Format: RFC 1035, sections 3.2 and 4.1; RFC 3596, section 2 (AAAA). An alias (CNAME)
// leads to another name (RFC 1034, section 3.6.2), and comes before that name's records. All
// addresses get the shortest lifetime of the records on the way (RFC 2181, sections 5.2 and 8).
#ifndef NAMES_ANSWER_H
#define NAMES_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

enum {
    NAMES_ANSWER_TYPE_A = 1, // types and class of a question or record
    NAMES_ANSWER_TYPE_AAAA = 28,
    // Maximum number of addresses in an answer; one with more is unreadable.
    NAMES_ANSWER_ADDRESSES_MAX = 256,
};

/// A name in the form for comparison: lower case, without a final dot; the root is empty.
struct answer_host {
    uint8_t length;
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Parsed message.
struct answer {
    uint16_t id;
    bool is_answer;    // true for an answer, false for a query
    uint16_t dns_type; // type and name of the question
    uint16_t class;
    struct answer_host host;
    uint32_t ttl;   // lifetime of the addresses in seconds
    uint32_t count; // number of addresses; also 0 for an error or a truncated answer
    unsigned __int128 addresses[NAMES_ANSWER_ADDRESSES_MAX];
};

/// Returns true if a question asks for addresses.
bool names_answer_asks_address(const struct answer *answer);

/// Reads the question of a message.
/// - message: complete message from its header on.
/// - answer: its addresses stay unchanged.
/// - Returns the offset after the question; 0 if the message does not have exactly one question,
///   the question is cut or malformed, or the message is no standard query or answer.
uint32_t names_answer_question(const uint8_t *message, uint32_t length, struct answer *answer);

/// Reads an answer to a question for addresses.
/// - offset: result of names_answer_question.
/// - answer: filled in by names_answer_question; addresses and ttl are added. It has no address
///   unless the message is readable.
/// - Returns true if the message is readable.
bool names_answer_read(const uint8_t *message, uint32_t length, uint32_t offset,
                       struct answer *answer);

#endif
