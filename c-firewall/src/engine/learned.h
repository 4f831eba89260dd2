// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses that sets have learned, shared by all workers.
//
// Theory of operation: a table of fixed size that never allocates. A hash with a randomly drawn key
// gives an address its bucket; if the bucket is full, the address that expires first is evicted.
// Sets are identified by a hash of their text, so that a set with the same text after a reload
// retains its addresses. Readers take no lock (the table is a seqlock): the number of a bucket is
// odd while one of its addresses is being exchanged, and a reader that finds it odd or changed
// reads again. Writers take a lock, and so does a reader after too many attempts, so that it does
// not spin while the kernel has suspended a writer.
#ifndef ENGINE_LEARNED_H
#define ENGINE_LEARNED_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

/// Table of the learned addresses of all sets.
struct learned;

/// Learned address of a set, as an upgrade hands it over.
struct learned_address {
    uint64_t set;
    policy_value address;
    uint64_t end_ns; // time at which the address expires
};

/// Creates an empty table with room for this many addresses, and one owner. Returns NULL if there
/// is no memory.
struct learned *learned_make(uint32_t addresses);

/// Adds an owner of the table, and returns the table. NULL is allowed.
struct learned *learned_share(struct learned *learned);

/// Removes an owner; the last one frees the table. NULL is allowed.
void learned_free(struct learned *learned);

/// Returns the time (monotonic clock, ns) at which an address of a set expires; 0 if the set does
/// not have the address.
/// - set: identity of the set (compile_learning).
uint64_t learned_end(struct learned *learned, uint64_t set, policy_value address);

/// Returns true if a set has the given address, and this address has not expired.
bool learned_find(struct learned *learned, uint64_t set, policy_value address, uint64_t now_ns);

/// Adds an address to a set, with its expiry time. An address that the set already has keeps the
/// later expiry time. Returns true if an unexpired address was evicted for the new address.
bool learned_add(struct learned *learned, uint64_t set, policy_value address, uint64_t end_ns,
                 uint64_t now_ns);

/// Returns the number of addresses that have not expired.
uint64_t learned_count(const struct learned *learned, uint64_t now_ns);

/// Returns the number of the table's entries, used and free.
uint32_t learned_places(const struct learned *learned);

/// Returns true with *found filled in if an entry has an address that has not expired. No other
/// thread may write.
/// - place: number of the entry, less than learned_places.
bool learned_at(const struct learned *learned, uint32_t place, uint64_t now_ns,
                struct learned_address *found);

/// Removes all addresses. Allowed only before the first lookup.
void learned_forget_all(struct learned *learned);

#endif
