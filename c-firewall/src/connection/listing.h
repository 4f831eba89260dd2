// SPDX-License-Identifier: GPL-2.0-or-later
// What is kept of connections, as it is told to who asks: a page after the other, each of which
// takes little time whatever the table holds. A connection keeps its slot, so one that stays is
// told of once.
#ifndef CONNECTION_LISTING_H
#define CONNECTION_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    LISTING_LOOKED_MAX = 256, // slots that are looked at for a page
    LISTING_LISTED_MAX = 64,  // connections of a page
};

/// State of a connection.
enum listed_state {
    LISTED_UNDECIDED, // its client has not shown its names yet
    LISTED_NAMED,     // its client has shown a name
    LISTED_MISSING,   // its client has shown that it has no name
    LISTED_DENIED,    // the policy refused it, or its client claimed different bytes for one place
    LISTED_UNKNOWN,   // its names can't be read, and never will
    LISTED_STATE_COUNT,
};

/// A connection.
struct listed {
    struct connection_key key;
    bool is_udp;
    bool client_low; // the client is the lower one of both ends
    enum listed_state state;
    enum names_protocol protocol; // that its client speaks, as far as that is known
    uint8_t host_length;          // bytes of host; 0 = it named none
    uint8_t host[NAMES_HOST_BYTES];
    uint64_t age_ns; // since it is followed
};

/// A part of a table.
struct listing_page {
    uint32_t from;  // asked: the slot to begin at
    bool undecided; // asked: connections that are undecided only
    uint32_t next;  // where the next one begins; CONNECTION_SLOT_NONE = there is none
    uint32_t count;
    struct listed listed[LISTING_LISTED_MAX];
};

/// Fills a page in as it was asked for. generation: of the policy.
void listing_fill(const struct connections *connections, uint64_t generation, uint64_t now_ns,
                  struct listing_page *page);

#endif
