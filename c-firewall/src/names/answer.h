// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of DNS answers for address queries: the question, and the addresses of the question's
// name. An alias record (CNAME) replaces the name by another name (RFC 1034, section 3.6.2), and
// must precede that name's records. All addresses get the shortest TTL of the aliases and address
// records that are used (RFC 2181, sections 5.2 and 8). Format: RFC 1035, sections 3.2 and 4.1; RFC
// 3596, section 2 (AAAA).
#ifndef NAMES_ANSWER_H
#define NAMES_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

enum {
    // Types of a question or resource record (RFC 1035, section 3.2; RFC 3596, section 2).
    NAMES_ANSWER_TYPE_A = 1,
    NAMES_ANSWER_TYPE_AAAA = 28,
    // Maximum number of addresses in an answer; an answer with more addresses is unreadable.
    NAMES_ANSWER_ADDRESSES_MAX = 256,
};

/// Name in lower case and without a final dot, for comparisons; the root's name is empty.
struct answer_host {
    uint8_t length;
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Parsed DNS message: its question, and the addresses that an answer has for the question.
struct answer {
    uint16_t id;
    bool is_answer;    // true for an answer, false for a query
    uint16_t dns_type; // type of the question
    uint16_t class;    // class of the question
    // Name of the question.
    struct answer_host host;
    // Shortest TTL of the addresses and of the aliases that lead to them, in seconds.
    uint32_t ttl;
    // Number of addresses; 0 if the answer is unreadable, is truncated or has an error code.
    uint32_t count;
    unsigned __int128 addresses[NAMES_ANSWER_ADDRESSES_MAX];
};

/// Returns true if the question is for addresses: class IN, and type A or AAAA.
bool names_answer_asks_address(const struct answer *answer);

/// Parses the question of a message.
/// - message: complete message, from its header on.
/// - answer: out: id, is_answer and the fields of the question; the addresses stay unchanged.
/// - Returns the offset after the question; 0 if the message does not have exactly one question, if
///   the question is cut or malformed, or if OPCODE is not 0 (standard query).
uint32_t names_answer_question(const uint8_t *message, uint32_t length, struct answer *answer);

/// Parses the records of an answer to a question for addresses.
/// - offset: result of names_answer_question.
/// - answer: in: result of names_answer_question; out: addresses, count and ttl are set. count is 0
///   if the answer has an error code, is truncated, or is unreadable.
/// - Returns false if the answer is unreadable: a record is malformed, or there are more than
///   NAMES_ANSWER_ADDRESSES_MAX addresses.
bool names_answer_parse(const uint8_t *message, uint32_t length, uint32_t offset,
                        struct answer *answer);

#endif
