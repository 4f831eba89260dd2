// SPDX-License-Identifier: GPL-2.0-or-later
// Data types of followed connections, and of the result for a packet.
#ifndef CONNECTION_TYPES_H
#define CONNECTION_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "names/hello.h"
#include "names/progress.h"
#include "names/quic.h"
#include "names/types.h"

// Slot (index in the table of connections) that means no connection.
#define CONNECTION_SLOT_NONE UINT32_MAX

/// Index that stands for this host in place of an interface: the host itself sends or receives the
/// packet.
#define CONNECTION_INTERFACE_HOST 0
// Index of an unknown interface: the hook does not report it.
#define CONNECTION_INTERFACE_UNKNOWN UINT32_MAX

/// Limits of the connections of one worker.
struct connection_settings {
    uint32_t connections; // maximum number of connections that one worker follows
    uint64_t hello_bytes; // memory for the clients' bytes that names are read from, in bytes
    // Time limit for a client's names, from its first byte; also for the storage of its bytes after
    // the names are known.
    uint64_t hello_timeout_ns;
    // Maximum number of data bytes that pass in each direction before the client has sent its
    // names.
    uint32_t undecided_bytes;
};

/// Checksum state of a packet, as the kernel reports it.
enum connection_checksum {
    CONNECTION_CHECKSUM_UNVERIFIED, // the kernel has not checked the checksum
    CONNECTION_CHECKSUM_VERIFIED,   // the checksum is correct
    // The kernel has not written the checksum yet (NFQA_SKB_CSUMNOTREADY).
    CONNECTION_CHECKSUM_NOT_READY,
};

/// Metadata of a packet.
struct connection_input {
    enum connection_checksum checksum;
    // True if the packet combines several packets (NFQA_SKB_GSO), which its receiver may get
    // separately.
    bool segmented;
    // Index of the packet's input and of its output interface, or CONNECTION_INTERFACE_HOST or
    // CONNECTION_INTERFACE_UNKNOWN.
    uint32_t source_interface;
    uint32_t sink_interface;
    uint64_t generation; // generation of the policy that decides; never 0
    bool asks_requests;  // true if the policy that decides reads HTTP requests
    // DNS: true if the kernel has checked that the client opened the packet's flow (--stage).
    bool is_directed;
    uint64_t now_ns; // time of the packet's decision in nanoseconds; never decreases
};

/// Kind of the result of following a packet.
enum followed_kind {
    FOLLOWED_NONE,  // the packet has no names: it is neither TCP nor UDP
    FOLLOWED_NAMES, // the packet has names, in any state; connection_names returns them
    // The connection is denied: the packet is dropped, or rejected with a RST (is_reset), without
    // evaluating rules.
    FOLLOWED_DENIED,
};

/// Result of following a packet, with which connection_names finds its names. Valid until the next
/// packet is followed.
struct followed {
    enum followed_kind kind;
    // Slot of the packet's connection; CONNECTION_SLOT_NONE if the packet has none, or has names of
    // its own.
    uint32_t slot;
};

/// Numbers that the engine has found for a connection's names in a policy: the number of the host
/// name, and the bits of the ALPN protocols. Zeroed when the names change.
struct connection_cache {
    // Generation of the policy that the numbers belong to; 0 means that there are no numbers.
    uint64_t generation;
    uint32_t host_number;
    uint32_t alpn_bits;
};

/// Timeout list that contains a connection. Each list is ordered by time and has one timeout.
enum connection_list {
    CONNECTION_OPENING, // TCP: the client has not acknowledged the server's answer to its SYN yet
    // The client has sent a part of the bytes that show its names, or of another DNS query or HTTP
    // request.
    CONNECTION_SHOWING,
    // The names are known. The client's bytes are kept until the TCP server has acknowledged them,
    // the time limit ends, or another connection needs the memory.
    CONNECTION_SETTLING,
    CONNECTION_KNOWN,     // TCP with known names, after the list Settling
    CONNECTION_DATAGRAMS, // UDP with known names, after the list Settling
    // One of the ends has closed the connection, or the connection is denied or unreadable.
    CONNECTION_CLOSING,
    CONNECTION_SILENT, // both ends have opened the connection, and the client has sent no data yet
    CONNECTION_LIST_COUNT,
};

/// Reason why names are unreadable.
enum connection_cause {
    // A packet of a connection whose beginning was not seen, or that was forgotten.
    CONNECTION_MIDSTREAM,
    CONNECTION_AMBIGUOUS, // the connection's ends may see another stream than the firewall
    // The connection's bytes have too many gaps, exceed the maximum length of a stream, or contain
    // too many queries or requests for one packet.
    CONNECTION_GAPS,
    CONNECTION_POOL,     // there was no memory for the connection's bytes
    CONNECTION_TIMEOUT,  // the client did not send its names in time
    CONNECTION_CUT,      // a packet's bytes were not copied, or its header is malformed
    CONNECTION_FRAGMENT, // a packet is a fragment
    CONNECTION_CHECKSUM, // a packet's checksum is incorrect
    CONNECTION_PARSE,    // the client's bytes can't be parsed or decrypted
    // A packet came in by another interface than that of its sender's end, or a server's UDP
    // datagram leaves by another interface than the client's.
    CONNECTION_INTERFACE,
    CONNECTION_BOUND, // more bytes passed than the limit while the client had not sent its names
    CONNECTION_CAUSE_COUNT,
};

enum {
    CONNECTION_PROTOCOL_COUNT = 5, // number of values of enum names_protocol
};

/// Counters of connections.
struct connection_counts {
    uint64_t opened;                     // opened connections, without those of an upgrade
    uint64_t now[CONNECTION_LIST_COUNT]; // connections followed now, by enum connection_list
    // Connections whose names became known, by enum names_protocol. Each DNS query counts, and each
    // HTTP request if the policy reads requests.
    uint64_t decided[CONNECTION_PROTOCOL_COUNT];
    uint64_t denied; // connections that a policy refused, counted once for each policy
    // Connections whose client sent different bytes for the same position, or different names in a
    // second ClientHello.
    uint64_t evasion;
    // Connections that became unreadable, and packets that are unreadable regardless of their
    // connection, by enum connection_cause. CONNECTION_MIDSTREAM, CUT, FRAGMENT, CHECKSUM and
    // INTERFACE count packets only.
    uint64_t unreadable[CONNECTION_CAUSE_COUNT];
    uint64_t evicted[CONNECTION_LIST_COUNT]; // evicted connections, by enum connection_list
    // UDP packets that begin like a QUIC packet of an unsupported version, and are not from or to
    // port 53, nor from the server of a followed connection.
    uint64_t unknown_version;
};

enum {
    CONNECTION_SPANS_MAX = 16,     // maximum number of pieces of a stream with gaps between them
    CONNECTION_BLOCK_BYTES = 1024, // size in bytes of a block of memory for clients' bytes
    // Maximum number of blocks of a client's stream.
    CONNECTION_BLOCKS_MAX = NAMES_HELLO_BYTES_MAX / CONNECTION_BLOCK_BYTES,
    CONNECTION_KEY_WORDS = 5,
    CONNECTION_END_WORDS = 3,
};

#define CONNECTION_BLOCK_NONE UINT32_MAX // index that means no block

/// Memory for clients' bytes, in blocks.
struct connection_pool {
    uint8_t *bytes;
    uint32_t *links; // for each freed block, the freed block to use after it
    uint32_t count;  // number of blocks
    uint32_t used;   // number of blocks that were ever in use
    uint32_t free;   // freed block to use next; CONNECTION_BLOCK_NONE if there is none
};

/// Piece of a stream without a gap: offsets of its first byte and after its last byte.
struct stream_span {
    uint16_t start;
    uint16_t end;
};

/// Stored bytes of a client's stream, assembled from packets. Offsets count from `base`.
struct stream {
    uint32_t base;    // sequence number of offset 0
    uint32_t decided; // offset after the bytes that names (or heads of HTTP chunks) were read from
    uint32_t acked;   // offset after the bytes that the server has acknowledged
    // True if the stored bytes were freed, so that later bytes can't be compared with them.
    bool let_go;
    bool ahead; // DNS: true if a piece arrived before the bytes that precede it in the stream
    uint8_t span_count;
    // Stored pieces, separate from each other and in order.
    struct stream_span spans[CONNECTION_SPANS_MAX];
    uint32_t blocks[CONNECTION_BLOCKS_MAX];
};

/// Addresses and ports of both ends, IP version and protocol. Equal for both directions: the lower
/// end (with the smaller address, or at equal addresses the smaller port) is first.
struct connection_key {
    uint64_t words[CONNECTION_KEY_WORDS];
};

/// Kind of the next bytes of an HTTP client.
enum requests_awaited {
    REQUESTS_HEADER,  // the next bytes are a request
    REQUESTS_CHUNK,   // the next bytes are a chunk of a body
    REQUESTS_NOTHING, // the next bytes are those of a tunnel: nothing more is read
    REQUESTS_LOST,    // the next bytes are unknown: the policy did not read requests
    REQUESTS_AWAITED_COUNT,
};

/// State of the parser of a connection's HTTP requests. All zeros are the state at the start of the
/// stream.
struct requests {
    uint64_t next; // offset in the stream of the next request or chunk
    enum requests_awaited awaited;
};

/// A followed connection: an entry of the connection table.
struct connection {
    struct connection_key key;
    // Index of the key's bucket in the connection table.
    uint32_t bucket;
    // Slot of the next connection in the key's bucket; for a free slot, the next free slot.
    uint32_t chained;
    // Slots of the next older and the next newer connection in the timeout list.
    uint32_t older;
    uint32_t newer;
    // Index of the client's share (see struct connection_share).
    uint32_t share;
    // Slots of the next older and the next newer connection in the client's share.
    uint32_t share_older;
    uint32_t share_newer;
    enum connection_list list;
    bool is_udp;     // true for UDP, false for TCP
    bool client_low; // true if the client is the lower end (by address and port)
    // Index of the interface by which each end's packets come in; CONNECTION_INTERFACE_HOST if the
    // end is this host, CONNECTION_INTERFACE_UNKNOWN if it is unknown.
    uint32_t client_interface;
    uint32_t server_interface;
    // Number of data bytes that passed from the client and from the server while the client had not
    // sent its names.
    uint32_t client_passed;
    uint32_t server_passed;
    bool confirmed; // true if the server has answered the client's SYN
    bool closed; // true if one of the ends has closed the connection, or it is denied or unreadable
    // True if the client sent different bytes for the same position of its stream, or different
    // names in a second ClientHello.
    bool evasion;
    bool is_dns;    // true if the server's port is that of DNS
    uint32_t begun; // TCP: sequence number of the client's first byte
    // Sequence numbers of the server's first byte and of the byte after its latest byte; valid if
    // confirmed.
    uint32_t server_begun;
    uint32_t server_end;
    bool syn_data;  // true if the client has sent data with its SYN
    bool may_retry; // true if the server may still request another ClientHello
    // True if the server may still turn the connection into a tunnel (HTTP CONNECT or Upgrade).
    bool may_switch;
    // True if a Handshake packet of the QUIC server came after the names were known: the server has
    // the complete ClientHello.
    bool accepted;
    // True if the server has sent a SYN without ACK while the client's SYN was not answered.
    bool crossed;
    bool pending;          // true if another SYN came that the server has not answered yet
    bool pending_low;      // true if the pending SYN came from the lower end
    uint32_t pending_base; // sequence number of the first byte after the pending SYN
    // Source interface of the pending SYN; the next line has its sink interface.
    uint32_t pending_client_interface;
    uint32_t pending_server_interface;
    // Time when the connection was first followed; after an upgrade, since_ns at the hand-over.
    uint64_t opened_ns;
    uint64_t since_ns; // time when the connection entered its list, or was used last
    uint64_t denied;   // generation of the policy that refused the connection; 0 means none
    bool is_reset;     // true if both ends of the denied connection get a RST
    struct connection_cache cache;
    struct stream stream;
    struct names_quic_keys keys;
    // QUIC connection id from which the keys are derived.
    uint8_t id[NAMES_QUIC_CONNECTION_BYTES_MAX];
    uint8_t id_bytes;
    bool has_id;         // true if the connection can be found by its QUIC connection id
    uint32_t id_chained; // slot of the next connection in the id's bucket, if has_id
    struct names names;
    // TCP: progress of the parsers in the message that is being read: the client's first message,
    // then its second ClientHello or the next request.
    struct names_progress progress;
    struct requests requests; // HTTP: state of the requests' parser now
    // HTTP: state of the requests' parser at stream.base (the start of the stored bytes).
    struct requests requests_begun;
};

/// List of connections in order of time: slots of the oldest and the newest connection, and their
/// number.
struct connection_times {
    uint32_t oldest;
    uint32_t newest;
    uint32_t count;
};

/// Record of a connection that was removed from the table although its server may continue it, or
/// of a QUIC connection id that was given up. It is valid for GRAVE_SECONDS.
struct connection_grave {
    // Upper half of the hash of the connection's key or of the id; 0 matches any connection or id.
    uint32_t tag;
    // Monotonic time in seconds, plus 1, when the connection was forgotten or the id given up; 0
    // means no record.
    uint32_t second;
};

/// Share: list of the connections of all clients whose addresses (IPv6: networks of 64 bits) have
/// the same index in `shares`, in the order in which they were added. Slots are stored plus 1; 0
/// means none.
struct connection_share {
    uint32_t oldest;
    uint32_t newest;
    uint32_t count;
};

/// Table of connections by their key, and in lists by time.
struct connection_table {
    struct siphash_key key; // hash key; an upgrade hands it over with the graves
    uint32_t mask;          // number of buckets - 1; the number is a power of 2
    uint32_t *buckets;      // slot of each bucket's first connection, plus 1; 0 means none
    // Slot of the first connection in each bucket of QUIC connection ids, plus 1; 0 means none.
    uint32_t *id_buckets;
    // Records of recently forgotten connections and given up QUIC connection ids, one per bucket,
    // at the buckets of their hashes.
    struct connection_grave *graves;
    // Lists of connections by the hash of their client's address; as many as there are buckets.
    struct connection_share *shares;
    struct connection *slots;
    uint32_t used;  // number of slots that were ever in use
    uint32_t limit; // maximum number of slots
    uint32_t free;  // freed slot to use next; CONNECTION_SLOT_NONE if there is none
    struct connection_times lists[CONNECTION_LIST_COUNT];
    struct connection spare; // unused connection that is returned for CONNECTION_SLOT_NONE
};

/// Position in a connection's DNS queries over TCP or HTTP requests, of which several may decide
/// the current packet one after another. Offsets count from the start of `gathered` (below).
struct connection_queries {
    // Slot of the connection that sent the queries or requests; CONNECTION_SLOT_NONE if none of
    // them is left.
    uint32_t slot;
    uint32_t place; // offset of the next query, request or chunk
    uint32_t end;   // length of the gathered bytes
    // DNS: offset at which the queries that decide the current packet end; a query that begins
    // there or later does not decide.
    uint32_t limit;
    // End of the queries or requests that were already counted with an earlier packet.
    uint32_t counted;
    uint32_t left; // number of queries or requests that may still be read for the current packet
};

/// All connections of a worker.
struct connections {
    struct connection_settings settings;
    struct connection_counts counts;
    struct connection_table table;
    struct connection_pool pool;
    uint64_t now_ns; // time of the packet followed last
    // True if the packet followed last, of TCP or UDP, comes from the lower end (by address and
    // port).
    bool is_low;
    uint64_t expire_ns; // time of the next check for expired connections
    struct names_quic_opener opener;
    // Buffer of NAMES_HELLO_BYTES_MAX for the bytes of a stream up to a gap, copied from its
    // blocks.
    uint8_t *gathered;
    uint8_t *scratch; // buffer of NAMES_HELLO_BYTES_MAX for the parsers, to join a ClientHello
    uint8_t *plain; // buffer of NAMES_HELLO_BYTES_MAX for the decrypted frames of an Initial packet
    struct names alone; // names that belong to one packet only, not to a connection
    struct connection_queries queries;
};

#endif
