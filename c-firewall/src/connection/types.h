// SPDX-License-Identifier: GPL-2.0-or-later
// What is kept of connections, and what is told of a packet.
#ifndef CONNECTION_TYPES_H
#define CONNECTION_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "names/types.h"

// No connection: what is told of a packet holds for this packet alone.
#define CONNECTION_SLOT_NONE UINT32_MAX

/// How many connections are followed, and for how long.
struct connection_settings {
    uint32_t connections;      // that are kept at once
    uint64_t hello_bytes;      // memory for what clients have sent until it is decided on
    uint64_t hello_timeout_ns; // from a client's first byte until it must have shown its names
};

/// What the kernel says of a packet's checksum.
enum connection_checksum {
    CONNECTION_CHECKSUM_UNVERIFIED, // nobody has looked at it
    CONNECTION_CHECKSUM_VERIFIED,   // it is right
    CONNECTION_CHECKSUM_NOT_READY,  // the packet was made here and has none yet
};

/// What comes with a packet.
struct connection_input {
    enum connection_checksum checksum;
    uint64_t generation; // of the policy that decides; never 0
    uint64_t now_ns;     // of a clock that never goes back
};

/// What becomes of a packet.
enum followed_kind {
    FOLLOWED_NONE,   // it has no names: neither TCP nor UDP
    FOLLOWED_NAMES,  // it has names: connection_names gives them
    FOLLOWED_DENIED, // its connection is denied: it is dropped, and no rule is asked
};

/// What is told of a packet. Good until the next one.
struct followed {
    enum followed_kind kind;
    uint32_t slot; // its connection, or CONNECTION_SLOT_NONE
};

/// What a policy makes of a connection's names, for who asks the policy. Zeroed whenever the names
/// change.
struct connection_cache {
    uint64_t generation; // of the policy; 0 = nothing is kept
    uint32_t host_number;
    uint32_t alpn_bits;
};

/// Where a connection stands. Each list is in the order of time and has one time-out.
enum connection_list {
    CONNECTION_OPENING,   // the client has sent nothing yet
    CONNECTION_SHOWING,   // the client has begun to show its names
    CONNECTION_SETTLING,  // its names are known, what it sent is kept until the server has it
    CONNECTION_KNOWN,     // all is known, of TCP
    CONNECTION_DATAGRAMS, // all is known, of UDP
    CONNECTION_CLOSING,   // one of its ends has closed it, or it is denied
    CONNECTION_LIST_COUNT,
};

/// Why names are unreadable.
enum connection_cause {
    CONNECTION_MIDSTREAM, // a packet of a connection whose beginning was not seen
    CONNECTION_AMBIGUOUS, // the connection's ends may see another stream than we do
    CONNECTION_GAPS,      // the bytes came with too many gaps, or beyond what is kept
    CONNECTION_POOL,      // there was no memory for the connection's bytes
    CONNECTION_TIMEOUT,   // the client did not show its names in time
    CONNECTION_CUT,       // a packet's bytes were not copied from the kernel
    CONNECTION_FRAGMENT,  // a packet is a fragment
    CONNECTION_CHECKSUM,  // a packet's checksum is wrong
    CONNECTION_PARSE,     // what the client sent can't be read
    CONNECTION_CAUSE_COUNT,
};

enum {
    CONNECTION_PROTOCOL_COUNT = 5, // of enum names_protocol
};

/// What was counted.
struct connection_counts {
    uint64_t opened;                             // connections that were begun to follow
    uint64_t now[CONNECTION_LIST_COUNT];         // connections that are followed
    uint64_t decided[CONNECTION_PROTOCOL_COUNT]; // connections, and queries of DNS
    uint64_t denied;                             // connections that the policy refused
    uint64_t evasion; // connections whose client claimed different bytes for one place
    // Packets of CONNECTION_MIDSTREAM, CUT, FRAGMENT and CHECKSUM and such as are so alone, else
    // connections.
    uint64_t unreadable[CONNECTION_CAUSE_COUNT];
    uint64_t evicted[CONNECTION_LIST_COUNT]; // connections that made room for others
    uint64_t unknown_version;                // packets of versions of QUIC that are not understood
};

/// All connections of a worker.
struct connections {
    struct connection_settings settings;
    struct connection_counts counts;
    struct names alone; // of a packet that belongs to no connection
};

#endif
