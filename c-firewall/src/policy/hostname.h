// SPDX-License-Identifier: GPL-2.0-or-later
// Names of hosts: reading one, and all of a policy, each once.
//
// Theory of operation: a name is written as people do and kept as DNS compares it: in lower case,
// as A-labels (RFC 5890), without a dot at its end. `*.x` is kept as x and a mark. Who writes the
// names (a block list from elsewhere) or asks for them (a client) must not choose how long a search
// takes: the table is that of engine/lookup_hash, with a key of its own and a bound on what a
// search looks at.
//
// A table of a million names is larger than what a processor keeps near, and a search waits for
// each place that it reads. So there are few: a slot says where the name's record is, which has all
// that is asked for. A name that is not there, as most that clients ask for, is told by less: a
// filter (Bloom's, of one word a name) of which a byte stands for a name. Only one such name in
// thirty looks at a slot.
#ifndef POLICY_HOSTNAME_H
#define POLICY_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/siphash.h"
#include "names/types.h"

#define HOSTNAME_NONE UINT32_MAX // no name has this number

/// A name that was read.
struct hostname {
    size_t length; // of bytes
    bool wildcard; // stands for the children of the name, at any depth
    uint8_t bytes[NAMES_HOST_BYTES];
};

/// Names, numbered from 0 in the order in which they came.
struct hostnames {
    uint32_t owners; // who share it
    uint32_t count;
    // One behind the other: a name's bytes, a word with its interval, and a word with its number
    // above its form.
    uint8_t *records;
    size_t records_room;
    uint32_t *ends; // where a name's record ends
    struct siphash_key key;
    size_t slot_count; // a power of 2, at least twice as many as there are names; or none
    // Slots, a word each: the upper half of a name's hash above where its record ends; 0 = empty.
    // Then the filter.
    uint8_t *table;
    unsigned __int128 depths; // bit n: there is a wildcard of n labels; as policy/forest says
};

/// The number that a name has in the forest (policy/forest), and the last one of what lies in it.
struct host_interval {
    uint32_t own, last;
};

/// Reads a name. Returns NULL, or why it is none, for lexer_wrong.
const char *hostname_read(const char *text, size_t length, struct hostname *name);

/// No names, for one owner; NULL if there is no memory.
struct hostnames *hostname_make(void);

/// Adds an owner. NULL has none.
struct hostnames *hostname_share(struct hostnames *hostnames);

/// Removes an owner; the last one frees them. NULL has none.
void hostname_free(struct hostnames *hostnames);

// hostnames may be NULL: none.

/// How many there are.
uint32_t hostname_count(const struct hostnames *hostnames);

/// The number of the name whose record ends at a place.
uint32_t hostname_id_at(const struct hostnames *hostnames, uint32_t place);

/// The interval of the name whose record ends at a place.
struct host_interval hostname_interval_at(const struct hostnames *hostnames, uint32_t place);

/// The interval of a name.
struct host_interval hostname_interval(const struct hostnames *hostnames, uint32_t id);

/// Assigns a name its interval.
void hostname_set_interval(struct hostnames *hostnames, uint32_t id, struct host_interval interval);

/// The bytes of a name (not ended by a NUL), and whether it is a wildcard.
const uint8_t *hostname_get(const struct hostnames *hostnames, uint32_t id, size_t *length,
                            bool *wildcard);

/// Prints a name as it is written, without quotes.
void hostname_put_text(FILE *out, const struct hostnames *hostnames, uint32_t id);

/// End of the record of a name; 0 = there is none.
uint32_t hostname_search(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                         bool wildcard);

/// The number of a name, or HOSTNAME_NONE.
uint32_t hostname_find(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                       bool wildcard);

/// The number of a name, which is added if it is new. Returns 0 or -ENOMEM.
int hostname_add(struct hostnames *hostnames, const uint8_t *name, size_t length, bool wildcard,
                 uint32_t *id);

#endif
