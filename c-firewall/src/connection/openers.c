// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/openers.h"

#include <stddef.h>
#include <string.h>

#include "connection/direction.h"
#include "connection/table.h"

enum {
    DNS_PORT = 53, // port of DNS servers
};

// Time that a flow is kept after its last packet (in the table `clients`: after the client's last
// packet): at least as long as conntrack keeps one, by default 120 s, and 180 s before Linux 5.0
// (nf_conntrack_udp_timeout_stream; nf_conntrack_udp_packet in
// net/netfilter/nf_conntrack_proto_udp.c prolongs it with packets of both ends).
#define KEEP_NS UINT64_C(180000000000)

void openers_make(struct openers *openers) { openers->key = siphash_draw(); }

/// Returns the hash of a packet's flow.
/// - is_servers: true if the packet comes from the server.
static uint64_t hash(const struct openers *openers, const struct packet *packet, bool is_servers) {
    uint64_t words[CONNECTION_KEY_WORDS + 1];
    struct connection_key key;
    const bool is_low = connection_table_key(packet, &key);

    memcpy(words, key.words, sizeof key.words);
    words[CONNECTION_KEY_WORDS] = is_low == is_servers;
    return siphash_words(&openers->key, words, CONNECTION_KEY_WORDS + 1);
}

/// Returns the hash of the address and port of a packet's client.
/// - is_servers: true if the packet comes from the server.
static uint64_t hash_client(const struct openers *openers, const struct packet *packet,
                            bool is_servers) {
    uint64_t words[CONNECTION_END_WORDS];

    connection_table_end(packet, !is_servers, words);
    return siphash_words(&openers->key, words, CONNECTION_END_WORDS);
}

/// Returns the place for an entry in its bucket: the place that it has, or the place of the entry
/// that expires first.
static struct openers_flow *place(struct openers_bucket *bucket, uint64_t tag) {
    struct openers_flow *all = bucket->flows, *first = all;

    for (int i = 0; i < OPENERS_BUCKET_FLOWS && first->tag != tag; i++)
        if (all[i].tag == tag || all[i].end_ns < first->end_ns)
            first = &all[i];
    return first;
}

/// Returns the entry with a hash (`tag`); NULL if there is none, or it has expired.
static const struct openers_flow *find(const struct openers_bucket *buckets, uint32_t count,
                                       uint64_t tag, uint64_t now_ns) {
    const struct openers_flow *all = buckets[tag % count].flows;

    for (int i = 0; i < OPENERS_BUCKET_FLOWS; i++)
        if (all[i].tag == tag && all[i].end_ns > now_ns)
            return &all[i];
    return NULL;
}

/// Stores or prolongs an entry; replaces only expired entries. Returns false if the bucket is full,
/// and records that in full_ns.
static bool keep(struct openers_bucket *buckets, uint32_t count, uint64_t tag, uint64_t now_ns) {
    struct openers_bucket *bucket = &buckets[tag % count];
    struct openers_flow *flow = place(bucket, tag);

    if (flow->tag != tag && flow->end_ns > now_ns) {
        bucket->full_ns = now_ns + KEEP_NS;
        return false;
    }
    flow->tag = tag;
    flow->end_ns = now_ns + KEEP_NS;
    return true;
}

/// Stores a flow that its client opened.
static void keep_client(struct openers *openers, uint64_t tag,
                        const struct connection_input *input) {
    *place(&openers->clients[tag % OPENERS_CLIENT_BUCKETS], tag) = (struct openers_flow){
        .tag = tag,
        .end_ns = input->now_ns + KEEP_NS,
        .client_interface = input->source_interface,
        .server_interface = input->sink_interface,
    };
}

/// Returns true if a client's packet belongs to a reversed flow (opened by its server), which is
/// then prolonged, or to a client that may have a reversed flow.
static bool is_reversed(struct openers *openers, const struct packet *packet, uint64_t tag,
                        uint64_t now_ns) {
    uint64_t end;

    if (find(openers->reversed, OPENERS_REVERSED_BUCKETS, tag, now_ns))
        return keep(openers->reversed, OPENERS_REVERSED_BUCKETS, tag, now_ns);
    end = hash_client(openers, packet, false);
    if (find(openers->ends, OPENERS_END_BUCKETS, end, now_ns))
        return keep(openers->ends, OPENERS_END_BUCKETS, end, now_ns);
    return openers->ends[end % OPENERS_END_BUCKETS].full_ns > now_ns;
}

bool openers_is_clients(const struct openers *openers, const struct packet *packet,
                        const struct connection_input *input) {
    const uint64_t tag = hash(openers, packet, false);
    const struct openers_flow *flow =
        find(openers->clients, OPENERS_CLIENT_BUCKETS, tag, input->now_ns);

    return flow && direction_answers(CONNECTION_INTERFACE_UNKNOWN, flow->client_interface, input);
}

/// Stores the flow of a packet to port 53 as opened by its client, unless the flow is reversed
/// (opened by its server) or its client may have a reversed flow. A flow that is stored as opened
/// by its client already (openers_is_clients) is always stored again.
static void note_client(struct openers *openers, const struct packet *packet,
                        const struct connection_input *input) {
    const uint64_t tag = hash(openers, packet, false);

    if (openers_is_clients(openers, packet, input) ||
        !is_reversed(openers, packet, tag, input->now_ns))
        keep_client(openers, tag, input);
}

/// Stores the flow of a packet from port 53 as reversed (opened by its server). Stores nothing if
/// the client opened the flow, and the packet's interfaces are those of the client's last packet in
/// reverse. If the flow has no place in `reversed`, stores only its client's address and port.
static void note_server(struct openers *openers, const struct packet *packet,
                        const struct connection_input *input) {
    const uint64_t tag = hash(openers, packet, true);
    const struct openers_flow *flow =
        find(openers->clients, OPENERS_CLIENT_BUCKETS, tag, input->now_ns);
    const bool is_known =
        flow && direction_answers_query(flow->client_interface, flow->server_interface, input);

    if (!is_known && !keep(openers->reversed, OPENERS_REVERSED_BUCKETS, tag, input->now_ns))
        keep(openers->ends, OPENERS_END_BUCKETS, hash_client(openers, packet, true), input->now_ns);
}

void openers_note(struct openers *openers, const struct packet *packet,
                  const struct connection_input *input) {
    if (packet->destination_port == DNS_PORT)
        note_client(openers, packet, input);
    if (packet->source_port == DNS_PORT)
        note_server(openers, packet, input);
}
