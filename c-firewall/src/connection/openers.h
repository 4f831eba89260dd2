// SPDX-License-Identifier: GPL-2.0-or-later
// UDP flows with port 53, by the end that opened them: only an end that opened a flow sends queries
// in it.
//
// Theory of operation: the server is the end with port 53, the client the other one, whichever
// opened the flow. A server that opens a flow to a UDP service chooses bytes that the service
// repeats, and the reply to port 53 reads as a query. So a flow is stored with its client's first
// packet, and with each later one for at least as long as conntrack keeps it. A server's packet of
// no such flow opens a reversed one, which is kept as long after the last packet of either end. A
// client that was forgotten has a reversed flow after the server's next packet: then nothing is
// learned. In a full bucket of clients the oldest entry is replaced. No reversed flow is: one
// without a place is stored by its client's address and port alone, so that many flows to one
// service don't affect other clients. If these have no place either, no client in the bucket opens
// a flow. Hashes have a random key, so a sender can't choose a bucket. A packet with port 53 at
// both ends is one of a client and one of a server.
#ifndef CONNECTION_OPENERS_H
#define CONNECTION_OPENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "connection/types.h"
#include "packet/packet.h"

enum {
    // Sizes of the tables in buckets.
    OPENERS_CLIENT_BUCKETS = 2048,
    OPENERS_REVERSED_BUCKETS = 1024,
    OPENERS_END_BUCKETS = 256,
    OPENERS_BUCKET_FLOWS = 8,
};

/// A flow, or a client's address and port.
struct openers_flow {
    uint64_t tag;
    uint64_t end_ns;           // expiry time; 0 means that the entry is unused
    uint32_t client_interface; // interfaces of a client's last packet
    uint32_t server_interface;
};

/// Entries of a table whose hashes are equal in their lowest bits.
struct openers_bucket {
    struct openers_flow flows[OPENERS_BUCKET_FLOWS];
    uint64_t full_ns; // time until which an entry may be missing that had no place
};

/// The flows of a worker.
struct openers {
    struct siphash_key key;
    struct openers_bucket clients[OPENERS_CLIENT_BUCKETS];
    struct openers_bucket reversed[OPENERS_REVERSED_BUCKETS];
    // Clients of reversed flows, by address and port.
    struct openers_bucket ends[OPENERS_END_BUCKETS];
};

/// Makes empty tables in zeroed memory.
void openers_make(struct openers *openers);

/// Returns true if the client of a packet opened its flow. False before `note`.
bool openers_is_clients(const struct openers *openers, const struct packet *packet,
                        const struct connection_input *input);

/// Stores the flow of an accepted UDP packet.
void openers_note(struct openers *openers, const struct packet *packet,
                  const struct connection_input *input);

#endif
