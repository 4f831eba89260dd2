// SPDX-License-Identifier: GPL-2.0-or-later
// Learning of addresses from accepted DNS packets.
//
// Theory of operation: a query for a name that a set learns is stored. The answer to it, sent from
// the query's destination to its source, adds addresses to the set. A query counts only if its
// sender opened the connection. Both packets must be accepted first, so only a server that the
// policy lets a client query can add addresses. A message is read if one packet contains all of it;
// over TCP, an answer must also begin where the server's previous message ended.
#ifndef ENGINE_TEACH_H
#define ENGINE_TEACH_H

#include <stdint.h>

#include "connection/asked.h"
#include "connection/types.h"
#include "engine/compiled.h"
#include "packet/packet.h"

enum {
    // Minimum lifetime of an address in seconds: as long as clients cache an answer whatever its
    // lifetime is (libcurl, browsers), and resend a SYN.
    TEACH_TTL_MIN = 60,
    TEACH_TTL_MAX = 86400, // maximum lifetime of an address in seconds: a day
};

/// Result of reading a DNS answer.
enum teach_result {
    TEACH_LEARNED, // the addresses of the answer were added to sets
    TEACH_EMPTY,   // the answer has no address
    TEACH_OTHER,   // no set learns from the answer, because of its name or type
    TEACH_UNASKED, // no stored query matches the answer
    // The answer is malformed, incomplete in its packet, at an unknown place in its packet, or has
    // a wrong checksum.
    TEACH_UNREADABLE,
    TEACH_RESULT_COUNT,
};

/// Output for a packet: the numbers of its DNS answers by result, and the function that is called
/// with learned addresses.
struct teach_output {
    // Numbers of DNS answers by enum teach_result; the packet's answers are added.
    uint64_t results[TEACH_RESULT_COUNT];
    // Called for each set that learns from an answer: with the set, the addresses, and the time
    // until which the set must have them (in nanoseconds, by the clock of connection_input.now_ns);
    // NULL = none.
    void (*listener)(void *context, const struct compile_kernel_set *set,
                     const policy_value *addresses, uint32_t count, uint64_t end_ns);
    void *context; // first argument of listener
};

/// Reads an accepted packet: stores a query for a name that a set learns, or adds the addresses of
/// an answer to sets.
void teach_packet(struct asked *asked, const struct compiled *compiled, const struct packet *packet,
                  const struct connection_input *how, struct teach_output *output);

#endif
