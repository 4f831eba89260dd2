// SPDX-License-Identifier: GPL-2.0-or-later
// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, with one round per
// word and three rounds at the end): a hash that is unpredictable without its key.
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t words[2];
};

/// Draws a random key. Ends the program if the kernel returns no random bytes, which does not
/// happen (getrandom(2) returns up to 256 bytes at once, and is older than the kernels that the
/// firewall needs).
struct siphash_key siphash_draw(void);

/// Returns the hash of the four bytes of a value, the lowest first.
uint64_t siphash_narrow(const struct siphash_key *key, uint32_t value);

/// Returns the hash of the bytes of words, the lowest byte of each word first.
uint64_t siphash_words(const struct siphash_key *key, const uint64_t *words, uint32_t count);

/// Returns the hash of bytes followed by the byte `last`.
uint64_t siphash_bytes(const struct siphash_key *key, const uint8_t *bytes, size_t count,
                       uint8_t last);

#endif
