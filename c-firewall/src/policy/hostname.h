// SPDX-License-Identifier: GPL-2.0-or-later
// Host names: the parser of a name, and the table of all names in a policy.
//
// Theory of operation: a name is stored in the form in which DNS compares it: in lower case, as
// A-labels (RFC 5890), without a final dot. `*.x` is stored as x with the flag `wildcard`. Neither
// the author of the names (a block list from elsewhere) nor a client that asks for them must be
// able to slow down searches by names with the same hash. Therefore the table is a hash table like
// that of engine/lookup_hash, with its own random key and a bound on the slots that a search for
// one of its names examines.
//
// A table of a million names is larger than a processor's caches, so a search waits for each word
// of memory that it reads. Therefore a search reads few words: a slot holds the position of the
// name's record, which holds all other data. Most names of clients are not in the table. They are
// rejected by a Bloom filter, in which all bits of a name are in the same word. The filter needs
// one to two bytes per name in the table; at most about one absent name in thirty passes it and is
// searched in the slots.
#ifndef POLICY_HOSTNAME_H
#define POLICY_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/siphash.h"
#include "names/types.h"

#define HOSTNAME_NONE UINT32_MAX // number that no name has

/// Parsed host name: in lower case, as A-labels, without `*.` and without a final dot.
struct hostname {
    size_t length; // length of the name in bytes
    // True for `*.x`, which stands for all names below x, at any depth, but not for x.
    bool wildcard;
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Table of names, numbered from 0 in the order in which they were added.
struct hostnames {
    uint32_t owners; // reference count: the last owner frees the table
    uint32_t count;
    // Records of the names, without gaps. A record holds the name's bytes, a word with the name's
    // interval, and a word with the name's number (upper half) and form (lower half: twice its
    // length, plus 1 for a wildcard).
    uint8_t *records;
    size_t records_room;
    uint32_t *ends; // end of each name's record, as an offset in records
    struct siphash_key key;
    // Number of slots: a power of 2, at least twice the number of names; 0 without names.
    size_t slot_count;
    // Hash table of one-word slots, followed by the filter. Upper half of a slot: upper half of the
    // name's hash. Lower half: end of the name's record. 0 = empty slot.
    uint8_t *table;
    // Bit n is set if there is a wildcard `*.x` of which x has n labels (policy/forest).
    unsigned __int128 depths;
};

/// Interval of a name in the forest (policy/forest): the name's own number there, and the largest
/// number of the name and the names below it.
struct host_interval {
    uint32_t own, last;
};

/// Parses a name in the policy's syntax. Returns NULL, or the cause, for the message of
/// lexer_wrong.
const char *hostname_parse(const char *text, size_t length, struct hostname *name);

/// Creates an empty table with a reference count of 1. Returns NULL if there is no memory.
struct hostnames *hostname_make(void);

/// Adds an owner to a table, and returns the table. NULL is allowed.
struct hostnames *hostname_share(struct hostnames *hostnames);

/// Removes an owner. Frees the table with its last owner. NULL is allowed.
void hostname_free(struct hostnames *hostnames);

// hostname_count, hostname_search and hostname_find accept NULL as hostnames, which means no names.

/// Returns the number of names in a table.
uint32_t hostname_count(const struct hostnames *hostnames);

/// Returns the number of the name whose record ends at the offset `place`.
uint32_t hostname_id_at(const struct hostnames *hostnames, uint32_t place);

/// Returns the interval in the forest of the name whose record ends at the offset `place`.
struct host_interval hostname_interval_at(const struct hostnames *hostnames, uint32_t place);

/// Returns the interval of a name in the forest.
struct host_interval hostname_interval(const struct hostnames *hostnames, uint32_t id);

/// Sets the interval of a name in the forest.
void hostname_set_interval(struct hostnames *hostnames, uint32_t id, struct host_interval interval);

/// Returns the bytes of a name (without a final NUL), and sets *wildcard to true if the name is a
/// wildcard.
/// - length: out: number of bytes.
/// - wildcard: out: always set.
const uint8_t *hostname_get(const struct hostnames *hostnames, uint32_t id, size_t *length,
                            bool *wildcard);

/// Prints a name in the policy's syntax, without quotes.
void hostname_put_text(FILE *out, const struct hostnames *hostnames, uint32_t id);

/// Searches a name. Returns the offset of the end of its record; 0 if the table lacks the name.
uint32_t hostname_search(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                         bool wildcard);

/// Returns the number of a name; HOSTNAME_NONE if the table lacks the name.
uint32_t hostname_find(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                       bool wildcard);

/// Adds a name if the table lacks it. Stores the name's number in *id. Returns 0 or -ENOMEM.
/// - id: out: the name's number.
int hostname_add(struct hostnames *hostnames, const uint8_t *name, size_t length, bool wildcard,
                 uint32_t *id);

#endif
