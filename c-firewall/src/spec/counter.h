// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/counters.toml: the counters of a queue's worker.
#ifndef SPEC_COUNTER_H
#define SPEC_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    // Alignment of struct stats in bytes: a pair of cache lines, which adjacent-line prefetch
    // fetches together.
    STATS_ALIGN = 128,
    STATS_WORDS = 59, // number of counters in struct stats
};

/// The counters of a worker. Only 64-bit words: stats_snapshot copies them one by one in this
/// order, which puts received before verdicts.
struct stats {
    // Packets received from the queue.
    _Alignas(STATS_ALIGN) uint64_t received;
    // Bytes of the packets received.
    uint64_t bytes;
    // Packets answered, by verdict.
    uint64_t verdicts[6];
    // Verdicts for packets that the kernel no longer had.
    uint64_t refused;
    // Malformed packets, by reason.
    uint64_t malformed[19];
    // Messages that could not be read, with an id or not.
    uint64_t netlink;
    // Packets with a header beyond the copied bytes.
    uint64_t beyond_copy;
    // Messages that the receive slot was too small for.
    uint64_t truncated;
    // Messages whose packet's id could not be read.
    uint64_t without_id;
    // Ids without a message, for no known reason.
    uint64_t gaps;
    // Receive calls that reported lost packets.
    uint64_t overruns;
    // Calls to send verdicts for which the kernel had no room.
    uint64_t send_retries;
    // Packets whose bytes that the policy reads were not copied.
    uint64_t undecidable;
    // Packets of which a rule reads a name that is not known yet, or can't be read.
    uint64_t undecided;
    // Packets without a connection state where the policy asks for it.
    uint64_t without_ct_state;
    // Packets given back to the kernel with the checksum that it had not written yet.
    uint64_t restated;
    // Replies to rejected packets, by result.
    uint64_t replies[3];
    // Connections that were followed for their names, by result.
    uint64_t connections[10];
    // DNS answers where the policy has sets that learn, by result.
    uint64_t answers[5];
    // Learned addresses that were sent to the kernel's sets (--stage), by result.
    uint64_t elements[2];
};

/// Line of the ledger's text that lists a counter: that of a queue, or of the policy. COUNTER_NONE
/// means that the text shows the counter elsewhere, or not at all.
enum counter_text { COUNTER_NONE, COUNTER_QUEUE, COUNTER_POLICY };

/// Description of a counter. Its index in counter_words is the counter's index in struct stats.
struct counter_word {
    const char *key;      // key in the ledger as JSON
    const char *value;    // name in the key's JSON object; NULL = the key has only this counter
    const char *handover; // name in the state that an upgrade hands over
    enum counter_text text;
    bool shown; // true if the ledger shows the counter
};

/// The counters, in the order of struct stats.
extern const struct counter_word counter_words[STATS_WORDS];

#endif
