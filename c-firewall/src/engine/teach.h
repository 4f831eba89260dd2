// SPDX-License-Identifier: GPL-2.0-or-later
// What accepted packets of DNS teach the sets of a policy.
//
// Theory of operation: a query for a name that a set learns is noted; the answer to it, from where
// it was sent, to who sent it, teaches its addresses. Both must be accepted first, so only a server
// that the policy lets a client ask can teach. A message is read where it lies whole in one packet;
// over TCP, where the one before it ends.
#ifndef ENGINE_TEACH_H
#define ENGINE_TEACH_H

#include <stdint.h>

#include "connection/asked.h"
#include "connection/types.h"
#include "engine/compiled.h"
#include "packet/packet.h"

enum {
    // Seconds that an address is known for at least: as long as clients keep an answer whatever it
    // says (libcurl, browsers),
    // and a SYN is sent again.
    TEACH_TTL_MIN = 60,
    TEACH_TTL_MAX = 86400, // seconds that an address is known for at most: a day
};

/// Result of reading an answer.
enum teach_result {
    TEACH_LEARNED,    // addresses were learnt
    TEACH_EMPTY,      // it has none
    TEACH_OTHER,      // no set learns its name
    TEACH_UNASKED,    // nobody waits for it
    TEACH_UNREADABLE, // it can't be read, or does not lie whole in its packet
    TEACH_RESULT_COUNT,
};

/// Reads an accepted packet.
/// - results: get what became of its answers, by enum teach_result.
void teach_packet(struct asked *asked, const struct compiled *compiled, const struct packet *packet,
                  const struct connection_input *how, uint64_t results[TEACH_RESULT_COUNT]);

#endif
