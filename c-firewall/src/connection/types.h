// SPDX-License-Identifier: GPL-2.0-or-later
// What is kept of connections, and what is told of a packet.
#ifndef CONNECTION_TYPES_H
#define CONNECTION_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "names/hello.h"
#include "names/quic.h"
#include "names/types.h"

// No connection: the names hold for this packet alone.
#define CONNECTION_SLOT_NONE UINT32_MAX

#define CONNECTION_INTERFACE_HOST 0             // in place of an interface: this host
#define CONNECTION_INTERFACE_UNKNOWN UINT32_MAX // in place of one: the hook does not tell

/// How many connections are followed, and for how long.
struct connection_settings {
    uint32_t connections;      // that are kept at once
    uint64_t hello_bytes;      // memory for what clients have sent until it is decided on
    uint64_t hello_timeout_ns; // from a client's first byte until it must have shown its names
    uint32_t undecided_bytes;  // that pass each way while a client has not shown its names
};

/// Checksum state of a packet, as the kernel reports it.
enum connection_checksum {
    CONNECTION_CHECKSUM_UNVERIFIED, // nobody has looked at it
    CONNECTION_CHECKSUM_VERIFIED,   // it is right
    CONNECTION_CHECKSUM_NOT_READY,  // the packet was made here and has none yet
};

/// Metadata of a packet.
struct connection_input {
    enum connection_checksum checksum;
    bool segmented; // it is several packets in one (NFQA_SKB_GSO), which its receiver sees apart
    // The interfaces that it came in and leaves by, CONNECTION_INTERFACE_HOST or _UNKNOWN.
    uint32_t source_interface;
    uint32_t sink_interface;
    uint64_t generation; // of the policy that decides; never 0
    bool asks_requests;  // that policy asks for requests of HTTP
    uint64_t now_ns;     // of a clock that never goes back
};

/// Result for a packet.
enum followed_kind {
    FOLLOWED_NONE,   // it has no names: neither TCP nor UDP
    FOLLOWED_NAMES,  // it has names: connection_names gives them
    FOLLOWED_DENIED, // its connection is denied: it is dropped, and no rule is asked
};

/// Names of a packet. Valid until the next one.
struct followed {
    enum followed_kind kind;
    uint32_t slot; // its connection, or CONNECTION_SLOT_NONE
};

/// Policy's numbers for a connection's names, for the caller of the policy. Zeroed whenever the
/// names change.
struct connection_cache {
    uint64_t generation; // of the policy; 0 = nothing is kept
    uint32_t host_number;
    uint32_t alpn_bits;
};

/// List of a connection. Each list is in the order of time and has one time-out.
enum connection_list {
    CONNECTION_OPENING,   // the client has sent its SYN alone
    CONNECTION_SHOWING,   // the client has begun to show its names
    CONNECTION_SETTLING,  // its names are known, what it sent is kept until the server has it
    CONNECTION_KNOWN,     // all is known, of TCP
    CONNECTION_DATAGRAMS, // all is known, of UDP
    CONNECTION_CLOSING,   // one of its ends has closed it, or it is denied
    CONNECTION_SILENT,    // both ends have opened it, and the client has sent nothing yet
    CONNECTION_LIST_COUNT,
};

/// Why names are unreadable.
enum connection_cause {
    CONNECTION_MIDSTREAM, // a packet of a connection whose beginning was not seen
    CONNECTION_AMBIGUOUS, // the connection's ends may see another stream than we do
    CONNECTION_GAPS,      // the bytes came with too many gaps, or are more than is kept or read
    CONNECTION_POOL,      // there was no memory for the connection's bytes
    CONNECTION_TIMEOUT,   // the client did not show its names in time
    CONNECTION_CUT,       // a packet's bytes were not copied from the kernel
    CONNECTION_FRAGMENT,  // a packet is a fragment
    CONNECTION_CHECKSUM,  // a packet's checksum is wrong
    CONNECTION_PARSE,     // what the client sent can't be read
    CONNECTION_INTERFACE, // a packet came from another interface than the end it claims to be from
    CONNECTION_BOUND,     // more bytes passed than may while the client had not shown its names
    CONNECTION_CAUSE_COUNT,
};

enum {
    CONNECTION_PROTOCOL_COUNT = 5, // of enum names_protocol
};

/// Counters.
struct connection_counts {
    uint64_t opened;                             // connections that were begun to follow
    uint64_t now[CONNECTION_LIST_COUNT];         // connections that are followed
    uint64_t decided[CONNECTION_PROTOCOL_COUNT]; // connections, queries of DNS, requests of HTTP
    uint64_t denied;                             // connections that the policy refused
    uint64_t evasion; // connections whose client claimed different bytes for one place
    // Packets of CONNECTION_MIDSTREAM, CUT, FRAGMENT, CHECKSUM and INTERFACE and such as are so
    // alone, else connections.
    uint64_t unreadable[CONNECTION_CAUSE_COUNT];
    uint64_t evicted[CONNECTION_LIST_COUNT]; // connections that made room for others
    uint64_t unknown_version;                // packets of versions of QUIC that are not understood
};

enum {
    CONNECTION_SPANS_MAX = 16,     // of a stream: so many pieces at once, with gaps between them
    CONNECTION_BLOCK_BYTES = 1024, // of a block of the pool
    CONNECTION_BLOCKS_MAX = NAMES_HELLO_BYTES_MAX / CONNECTION_BLOCK_BYTES, // of a stream
    CONNECTION_KEY_WORDS = 5,
};

#define CONNECTION_BLOCK_NONE UINT32_MAX // no block

/// Memory for what clients have sent, in blocks.
struct connection_pool {
    uint8_t *bytes;
    uint32_t *links; // of a block that is free again: the next one
    uint32_t count;  // of blocks
    uint32_t used;   // blocks that were ever in use
    uint32_t free;   // the first one that is free again
};

/// A piece of a stream without a gap.
struct stream_span {
    uint16_t start;
    uint16_t end;
};

/// The first bytes of a client, put together. Offsets count from the first one.
struct stream {
    uint32_t base;    // the sequence number of offset 0
    uint32_t decided; // up to here it is decided on
    uint32_t acked;   // up to here the server has it
    bool let_go;      // what was kept is not kept any more
    bool ahead;       // of DNS: a piece came before what stands before it
    uint8_t span_count;
    struct stream_span spans[CONNECTION_SPANS_MAX]; // that were kept: apart, in their order
    uint32_t blocks[CONNECTION_BLOCKS_MAX];
};

/// Both ends and the protocol, alike for both directions.
struct connection_key {
    uint64_t words[CONNECTION_KEY_WORDS];
};

/// Kind of the next bytes of an HTTP client.
enum requests_awaited {
    REQUESTS_HEADER,  // a request
    REQUESTS_CHUNK,   // a chunk of a body
    REQUESTS_NOTHING, // those of a tunnel: no more is read
    REQUESTS_LOST,    // not known: the policy did not ask for requests
    REQUESTS_AWAITED_COUNT,
};

/// How far the requests of a connection are read. Zeroed none has been.
struct requests {
    uint64_t next; // the offset in the stream where the next request or chunk begins
    enum requests_awaited awaited;
};

/// A connection.
struct connection {
    struct connection_key key;
    // Bucket of its key; the next connection there, or, of a slot that is none, the next one that
    // is free.
    uint32_t bucket;
    uint32_t chained;
    uint32_t older;
    uint32_t newer;
    // Links in the list of its client's connections: its share, the previous and the next one.
    uint32_t share;
    uint32_t share_older;
    uint32_t share_newer;
    enum connection_list list;
    bool is_udp;     // else TCP
    bool client_low; // the client is the lower one of both ends
    // Interface of each end's packets, CONNECTION_INTERFACE_HOST or _UNKNOWN.
    uint32_t client_interface;
    uint32_t server_interface;
    // Bytes that each end has sent while the client had not shown its names.
    uint32_t client_passed;
    uint32_t server_passed;
    bool confirmed; // the server has answered the client's SYN
    bool closed;    // one of the ends has closed it
    bool evasion;   // its client claimed different bytes for one place
    bool is_dns;    // the server's port is that of DNS
    uint32_t begun; // of TCP: the sequence number of the client's first byte
    // With confirmed: the number of the server's first byte, and behind the last that was seen.
    uint32_t server_begun;
    uint32_t server_end;
    bool syn_data;   // the client has sent data with its SYN
    bool may_retry;  // the server may still ask for another ClientHello
    bool may_switch; // the server may still say that it is a tunnel
    // A Handshake packet of the QUIC server came after the names were known: it has the whole
    // hello.
    bool accepted;
    bool crossed;                      // the server has sent a SYN of its own
    bool pending;                      // another SYN came, which the server has not answered
    bool pending_low;                  // from the lower one of both ends
    uint32_t pending_base;             // with pending: the sequence number of its first byte
    uint32_t pending_client_interface; // with pending: where it came from, and went to
    uint32_t pending_server_interface;
    uint64_t opened_ns; // when it was begun to follow
    uint64_t since_ns;  // when it came to its list, or was used last
    uint64_t denied;    // the generation of the policy that refused it; 0 = none has
    bool is_reset;      // with denied: both ends are told so
    struct connection_cache cache;
    struct stream stream;
    struct names_quic_keys keys;
    uint8_t id[NAMES_QUIC_CONNECTION_BYTES_MAX]; // that the keys are of
    uint8_t id_bytes;
    bool has_id;         // it can be found by its id
    uint32_t id_chained; // with has_id: the next one of that bucket
    struct names names;
    struct requests requests;       // of HTTP
    struct requests requests_begun; // what they were where the stream begins
};

/// Connections in the order of their time.
struct connection_times {
    uint32_t oldest;
    uint32_t newest;
    uint32_t count;
};

/// That a connection was forgotten whose server may go on with it.
struct connection_grave {
    uint32_t tag;    // the upper half of its hash, or 0 for any
    uint32_t second; // when, in seconds from 1; 0 = none was
};

/// The connections of the clients of one place, from the oldest on. Slots are plus 1; 0 = none.
struct connection_share {
    uint32_t oldest;
    uint32_t newest;
    uint32_t count;
};

/// Connections by their key.
struct connection_table {
    struct siphash_key key;
    uint32_t mask;        // buckets - 1; they are a power of 2
    uint32_t *buckets;    // the first connection of each, plus 1
    uint32_t *id_buckets; // the same by the connection id of QUIC
    // One a bucket, by a hash of their own, which goes on in upgrades.
    struct connection_grave *graves;
    struct siphash_key grave_key;
    struct connection_share *shares; // one a bucket, by the hash of a client's address
    struct connection *slots;
    uint32_t used;  // slots that were ever in use
    uint32_t limit; // of them
    uint32_t free;  // the first one that is free again
    struct connection_times lists[CONNECTION_LIST_COUNT];
    struct connection spare; // what a slot that is none is
};

/// The queries of DNS over TCP, or requests of HTTP, that the packet at hand is judged by, in what
/// is gathered.
struct connection_queries {
    uint32_t slot;    // their connection; CONNECTION_SLOT_NONE = none is left
    uint32_t place;   // of the next one
    uint32_t end;     // of what is gathered
    uint32_t limit;   // of DNS: what begins here or behind is not read
    uint32_t counted; // what ends up to here was counted with another packet
    uint32_t left;    // that may be read
};

/// All connections of a worker.
struct connections {
    struct connection_settings settings;
    struct connection_counts counts;
    struct connection_table table;
    struct connection_pool pool;
    uint64_t now_ns; // of the packet that was followed last
    // The packet that was followed last comes from the lower one of both ends; of TCP and UDP.
    bool is_low;
    uint64_t expire_ns; // when it is looked next whose time is over
    struct names_quic_opener opener;
    uint8_t *gathered;  // a stream's bytes in one piece; NAMES_HELLO_BYTES_MAX
    uint8_t *scratch;   // what the parsers put together; NAMES_HELLO_BYTES_MAX
    uint8_t *plain;     // the frames of an Initial packet; NAMES_HELLO_BYTES_MAX
    struct names alone; // of a packet that belongs to no connection
    struct connection_queries queries;
};

#endif
