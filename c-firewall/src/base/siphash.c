// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: getrandom
#include "base/siphash.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/// Constants of SipHash for its initial state: the letters of "somepseudorandomlygeneratedbytes".
#define START_0 0x736f6d6570736575ULL
#define START_1 0x646f72616e646f6dULL
#define START_2 0x6c7967656e657261ULL
#define START_3 0x7465646279746573ULL

enum {
    LENGTH_SHIFT = 56, // bit position of the message's length in the last word
    END_MARK = 0xff,
};

struct state {
    uint64_t v0, v1, v2, v3;
};

struct siphash_key siphash_draw(void) {
    struct siphash_key key;

    if (getrandom(&key, sizeof key, 0) != sizeof key)
        abort();
    return key;
}

static uint64_t rotate(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

/// Executes one round of SipHash. Inlined, because a call would store the state in memory at each
/// round.
__attribute__((always_inline)) static inline void round_of(struct state *state) {
    state->v0 += state->v1;
    state->v2 += state->v3;
    state->v1 = rotate(state->v1, 13) ^ state->v0;
    state->v3 = rotate(state->v3, 16) ^ state->v2;
    state->v0 = rotate(state->v0, 32) + state->v3;
    state->v2 += state->v1;
    state->v3 = rotate(state->v3, 21) ^ state->v0;
    state->v1 = rotate(state->v1, 17) ^ state->v2;
    state->v2 = rotate(state->v2, 32);
}

static struct state begin(const struct siphash_key *key) {
    return (struct state){key->words[0] ^ START_0, key->words[1] ^ START_1, key->words[0] ^ START_2,
                          key->words[1] ^ START_3};
}

__attribute__((always_inline)) static inline void add(struct state *state, uint64_t word) {
    state->v3 ^= word;
    round_of(state);
    state->v0 ^= word;
}

/// Adds the message's last word, and returns the hash.
__attribute__((always_inline)) static inline uint64_t end(struct state *state, uint64_t last) {
    add(state, last);
    state->v2 ^= END_MARK;
    for (int i = 0; i < 3; i++)
        round_of(state);
    return state->v0 ^ state->v1 ^ state->v2 ^ state->v3;
}

uint64_t siphash_narrow(const struct siphash_key *key, uint32_t value) {
    struct state state = begin(key);

    return end(&state, (uint64_t)sizeof value << LENGTH_SHIFT | value);
}

uint64_t siphash_words(const struct siphash_key *key, const uint64_t *words, uint32_t count) {
    struct state state = begin(key);

    for (uint32_t i = 0; i < count; i++)
        add(&state, words[i]);
    return end(&state, (uint64_t)count * sizeof *words << LENGTH_SHIFT);
}

uint64_t siphash_bytes(const struct siphash_key *key, const uint8_t *bytes, size_t count,
                       uint8_t last) {
    struct state state = begin(key);
    size_t left = count;
    uint64_t word;

    for (; left >= sizeof word; left -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        add(&state, le64toh(word));
    }
    // Builds the word in registers: a read of a word whose bytes were just written to memory would
    // wait for all earlier reads.
    word = last;
    for (size_t i = left; i-- > 0;)
        word = word << 8 | bytes[i];
    if (left + 1 == sizeof word) {
        add(&state, word);
        word = 0;
    }
    return end(&state, (uint64_t)(count + 1) << LENGTH_SHIFT | word);
}
