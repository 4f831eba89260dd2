// SPDX-License-Identifier: GPL-2.0-or-later
// Lists connections in pages. The time for a page is limited, whatever the size of the table. A
// connection keeps its slot, so a connection that stays is listed once.
#ifndef CONNECTION_LISTING_H
#define CONNECTION_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

enum {
    // Maximum number of slots of the connection table that are searched for one page of the
    // listing.
    LISTING_LOOKED_MAX = 256,
    LISTING_LISTED_MAX = 64, // maximum number of connections on a page of the listing
};

/// State of a listed connection: the client's name is not sent yet, sent, missing or unreadable, or
/// the connection is denied.
enum listed_state {
    LISTED_UNDECIDED, // undecided: the client has not sent its names yet
    LISTED_NAMED,     // the client has sent a name
    LISTED_MISSING,   // the client sends no name
    // The policy refused the connection, or its client sent different bytes for the same position
    // of its stream, or different names in a second ClientHello.
    LISTED_DENIED,
    LISTED_UNKNOWN, // the connection's names are unreadable for good
    LISTED_STATE_COUNT,
};

/// A listed connection.
struct listed {
    struct connection_key key;
    bool is_udp;
    bool client_low; // true if the client is the lower end (by address and port)
    enum listed_state state;
    // Protocol in which the client sends names; NAMES_OTHER also if the names are not known.
    enum names_protocol protocol;
    uint8_t host_length; // length of host in bytes; 0 = the connection has no host name
    uint8_t host[NAMES_HOST_BYTES];
    // Time since the connection was first followed; for a connection from before an upgrade, since
    // its last use or change of list in the old firewall.
    uint64_t age_ns;
};

/// A page of the listing of connections: the request (`from` and `undecided`) and the result.
struct listing_page {
    uint32_t from;  // request: slot of the connection table at which the search begins
    bool undecided; // request: list only undecided connections
    // Slot at which the search for the next page begins; CONNECTION_SLOT_NONE means that this is
    // the last page.
    uint32_t next;
    uint32_t count;
    struct listed listed[LISTING_LISTED_MAX];
};

/// Fills a page with connections, as the page requests.
/// - generation: generation of the current policy; a connection that an earlier policy refused does
///   not count as denied.
/// - page: in: the request; out: all other fields.
void listing_fill(const struct connections *connections, uint64_t generation, uint64_t now_ns,
                  struct listing_page *page);

#endif
