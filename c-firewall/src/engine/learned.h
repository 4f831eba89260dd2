// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses that sets have learnt, of all workers together.
//
// Theory of operation: a table of fixed size that never allocates. An address lies in one bucket,
// by a hash with a key that is drawn once; where it is full, the address that ends first makes
// room. Sets are known by a hash of what they say, so that a set which says the same after a reload
// goes on with its addresses. Who looks takes no lock: a bucket has a number that is odd while one
// of its addresses is exchanged, and who finds it odd or changed looks again. Who writes takes a
// lock, and so does who has looked too often, so that nobody waits for a writer that the kernel put
// to sleep.
#ifndef ENGINE_LEARNED_H
#define ENGINE_LEARNED_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

/// The addresses of all sets.
struct learned;

/// An address of a set.
struct learned_address {
    uint64_t set;
    policy_value address;
    uint64_t end_ns; // when it is over
};

/// Makes room for so many addresses, for one owner. NULL if there is no memory.
struct learned *learned_make(uint32_t addresses);

/// Adds an owner. NULL has none.
struct learned *learned_share(struct learned *learned);

/// Removes an owner; the last one frees them. NULL has none.
void learned_free(struct learned *learned);

/// Whether a set has an address.
bool learned_find(struct learned *learned, uint64_t set, policy_value address, uint64_t now_ns);

/// Has a set know an address until a time, or for longer if it does already. Returns whether
/// another one made room before its time.
bool learned_add(struct learned *learned, uint64_t set, policy_value address, uint64_t end_ns,
                 uint64_t now_ns);

/// How many addresses there are.
uint64_t learned_count(const struct learned *learned, uint64_t now_ns);

/// How many places for addresses there are.
uint32_t learned_places(const struct learned *learned);

/// The address at a place, while nobody writes. Returns whether there is one that is not over.
bool learned_at(const struct learned *learned, uint32_t place, uint64_t now_ns,
                struct learned_address *found);

/// Forgets all addresses. Only before the first lookup.
void learned_forget_all(struct learned *learned);

#endif
