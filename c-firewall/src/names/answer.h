// SPDX-License-Identifier: GPL-2.0-or-later
// What a message of DNS says of the addresses of a name: the question, and in an answer the
// addresses that are reached from it.
// Format: RFC 1035, sections 3.2 and 4.1; RFC 3596, section 2 (AAAA). An alias (CNAME) leads on to
// another name (RFC 1034, section 3.6.2) and stands before what it leads to. All that is reached
// holds for the least time that is told on the way (RFC 2181, sections 5.2 and 8).
#ifndef NAMES_ANSWER_H
#define NAMES_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

enum {
    NAMES_ANSWER_TYPE_A = 1, // of a question
    NAMES_ANSWER_TYPE_AAAA = 28,
    NAMES_ANSWER_ADDRESSES_MAX = 256, // of an answer; one with more is unreadable
};

/// A name as it is compared: in lower case, without the dot at its end; that of the root is empty.
struct answer_host {
    uint8_t length;
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Parsed message.
struct answer {
    uint16_t id;
    bool is_answer;    // else it is a query
    uint16_t dns_type; // of the question
    uint16_t class;
    struct answer_host host;
    uint32_t ttl;   // seconds that the addresses hold for
    uint32_t count; // of addresses: 0 too if there was an error, or the answer was cut
    unsigned __int128 addresses[NAMES_ANSWER_ADDRESSES_MAX];
};

/// Whether a question asks for addresses.
bool names_answer_asks_address(const struct answer *answer);

/// Reads the question of a message.
/// - message: all of it, from its header on.
/// - answer: its addresses are left alone.
/// - Returns the offset behind the question; 0 if there is not exactly one, or that is cut or
///   malformed, or the message is about something else.
uint32_t names_answer_question(const uint8_t *message, uint32_t length, struct answer *answer);

/// Reads an answer to a question for addresses.
/// - offset: what names_answer_question gave.
/// - answer: filled in by names_answer_question. Gets addresses and ttl; no address unless it can
///   be read.
/// - Returns whether it can be read.
bool names_answer_read(const uint8_t *message, uint32_t length, uint32_t offset,
                       struct answer *answer);

#endif
