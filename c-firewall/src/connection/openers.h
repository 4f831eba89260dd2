// SPDX-License-Identifier: GPL-2.0-or-later
// UDP flows with port 53, by the end that opened them: only an end that opened a flow sends queries
// in it.
//
// Theory of operation: the server is the end with port 53, the client the other end, whichever
// opened the flow. A server that opens a flow to a UDP service chooses bytes that the service
// repeats, and the reply to port 53 reads as a query. So a flow is stored with its client's first
// packet. Each later packet of the client prolongs it, by at least the timeout of conntrack. A
// server's packet that belongs to no such flow opens a reversed flow, which is kept as long after
// the last packet of either end. A client that was forgotten has a reversed flow after the server's
// next packet: then nothing is learned. In a full bucket of clients the oldest entry is replaced. A
// reversed flow is never replaced. If a new reversed flow has no place, only its client's address
// and port are stored, so that many flows to one service don't affect other clients. If these have
// no place either, no client in the bucket opens a flow. Hashes have a random key, so a sender
// can't choose a bucket. A packet with port 53 at both ends counts as a client's and as a server's
// packet.
#ifndef CONNECTION_OPENERS_H
#define CONNECTION_OPENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/types.h"
#include "packet/packet.h"

enum {
    // Number of buckets in the table `clients`: flows that their client opened.
    OPENERS_CLIENT_BUCKETS = 2048,
    // Number of buckets in the table `reversed`: flows that their server opened.
    OPENERS_REVERSED_BUCKETS = 1024,
    // Number of buckets in the table `ends`: clients of reversed flows that have no place in
    // `reversed`.
    OPENERS_END_BUCKETS = 256,
    OPENERS_BUCKET_FLOWS = 8,
};

/// Entry of a table of struct openers: the hash of a flow, or of a client's address and port.
struct openers_flow {
    uint64_t tag;
    uint64_t end_ns; // expiry time; 0 means that the entry is unused
    // Source and sink interface of the client's last packet, in the table `clients` only.
    uint32_t client_interface;
    uint32_t server_interface;
};

/// Entries of a table of struct openers whose hashes are equal in their lowest bits.
struct openers_bucket {
    struct openers_flow flows[OPENERS_BUCKET_FLOWS];
    uint64_t full_ns; // time until which an entry may be missing because the bucket was full
};

/// UDP flows with port 53 of a worker, by the end that opened them.
struct openers {
    struct siphash_key key;
    struct openers_bucket clients[OPENERS_CLIENT_BUCKETS];
    struct openers_bucket reversed[OPENERS_REVERSED_BUCKETS];
    // Clients (address and port) of those reversed flows that have no place in `reversed`.
    struct openers_bucket ends[OPENERS_END_BUCKETS];
};

/// Makes empty tables in zeroed memory.
void openers_make(struct openers *openers);

/// Returns true if a client's packet belongs to a flow that the client opened, and comes in by the
/// interface of the client's last packet. False until openers_note has stored the flow.
bool openers_is_clients(const struct openers *openers, const struct packet *packet,
                        const struct connection_input *input);

/// Stores the flow of an accepted UDP packet, if one of its ports is 53.
void openers_note(struct openers *openers, const struct packet *packet,
                  const struct connection_input *input);

#endif
