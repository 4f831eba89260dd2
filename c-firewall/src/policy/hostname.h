// SPDX-License-Identifier: GPL-2.0-or-later
// Host names: parsing of one, and the table of all names in a policy.
//
// Theory of operation: a name is stored in the form in which DNS compares it: in lower case, as
// A-labels (RFC 5890), without a final dot. `*.x` is stored as x with a mark. Neither the author of
// the names (a block list from elsewhere) nor a client that asks for them must be able to slow down
// searches. Therefore the table is like that of engine/lookup_hash, with its own random key and a
// bound on the slots that a search examines.
//
// A table of a million names is larger than a processor's caches, and a search waits for each place
// that it reads. Therefore it reads few places: a slot has the position of the name's record, which
// holds all further data. Most names of clients are not in the table. For these a filter (a Bloom
// filter with one word per name) is enough, which needs one byte per name in the table; only one
// such name in thirty causes a look at a slot.
#ifndef POLICY_HOSTNAME_H
#define POLICY_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/siphash.h"
#include "names/types.h"

#define HOSTNAME_NONE UINT32_MAX // number that no name has

/// A parsed name.
struct hostname {
    size_t length; // length of the name
    bool wildcard; // true if the name represents its children, at any depth, not itself
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Table of names, numbered from 0 in the order in which they were added.
struct hostnames {
    uint32_t owners; // number of owners
    uint32_t count;
    // Adjacent records: a name's bytes, a word with its interval, and a word with its number above
    // its form.
    uint8_t *records;
    size_t records_room;
    uint32_t *ends; // end of each name's record
    struct siphash_key key;
    // Number of slots: a power of 2, at least twice the number of names; 0 without names.
    size_t slot_count;
    // Slots of one word each: the upper half of a name's hash above the end of its record; 0 =
    // empty. The filter follows.
    uint8_t *table;
    unsigned __int128 depths; // bit n is set if there is a wildcard of n labels (policy/forest)
};

/// Number of a name in the forest (policy/forest), and the last number of the names that belong to
/// it.
struct host_interval {
    uint32_t own, last;
};

/// Parses a name. Returns NULL, or its error, for lexer_wrong.
const char *hostname_read(const char *text, size_t length, struct hostname *name);

/// Creates an empty table with one owner; NULL if there is no memory.
struct hostnames *hostname_make(void);

/// Adds an owner. NULL is allowed.
struct hostnames *hostname_share(struct hostnames *hostnames);

/// Removes an owner; the last one frees the table. NULL is allowed.
void hostname_free(struct hostnames *hostnames);

// hostnames may be NULL, which means no names.

/// Returns the number of names.
uint32_t hostname_count(const struct hostnames *hostnames);

/// Returns the number of the name whose record ends at a place.
uint32_t hostname_id_at(const struct hostnames *hostnames, uint32_t place);

/// Returns the interval of the name whose record ends at a place.
struct host_interval hostname_interval_at(const struct hostnames *hostnames, uint32_t place);

/// Returns the interval of a name.
struct host_interval hostname_interval(const struct hostnames *hostnames, uint32_t id);

/// Sets the interval of a name.
void hostname_set_interval(struct hostnames *hostnames, uint32_t id, struct host_interval interval);

/// Returns the bytes of a name (without a final NUL), and sets *wildcard if it is one.
const uint8_t *hostname_get(const struct hostnames *hostnames, uint32_t id, size_t *length,
                            bool *wildcard);

/// Prints a name in the policy's syntax, without quotes.
void hostname_put_text(FILE *out, const struct hostnames *hostnames, uint32_t id);

/// Returns the end of a name's record; 0 = there is none.
uint32_t hostname_search(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                         bool wildcard);

/// Returns the number of a name, or HOSTNAME_NONE.
uint32_t hostname_find(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                       bool wildcard);

/// Returns the number of a name in *id, and adds the name if it is new. Returns 0 or -ENOMEM.
int hostname_add(struct hostnames *hostnames, const uint8_t *name, size_t length, bool wildcard,
                 uint32_t *id);

#endif
