// SPDX-License-Identifier: GPL-2.0-or-later
// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, with one round a
// word and three at the end): a hash of which nothing can be told without its key.
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t words[2];
};

/// Draws a key at random. Ends the program if the kernel gives none, which it always does
/// (getrandom(2) gives up to 256 bytes whole, and is older than what the firewall needs).
struct siphash_key siphash_draw(void);

/// The hash of the four bytes of a value, the lowest first.
uint64_t siphash_narrow(const struct siphash_key *key, uint32_t value);

/// The hash of the bytes of words, of each the lowest first.
uint64_t siphash_words(const struct siphash_key *key, const uint64_t *words, uint32_t count);

/// The hash of bytes and one more behind them.
uint64_t siphash_bytes(const struct siphash_key *key, const uint8_t *bytes, size_t count,
                       uint8_t last);

#endif
