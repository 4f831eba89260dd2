// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/hostname.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "policy/label.h"

enum {
    PROBES_MAX = 128,  // maximum number of slots that a search for a name of the table examines
    SLOTS_MIN = 256,   // number of slots of the first table
    FILTER_SLOTS = 16, // number of slots per word of the Bloom filter
    WORD_BYTES = 8,
    TAIL_BYTES = 2 * WORD_BYTES, // size of the part of a record after the name's bytes: two words
};

/// Slot at which a search in the table has ended.
struct probe {
    size_t slot;
    uint32_t place;  // end of the name's record, as an offset in records; 0 if the slot is empty
    uint32_t passed; // number of slots that were examined before this slot
};

static bool is_in(char byte, const char *set) { return byte != '\0' && strchr(set, byte); }

static bool is_alphanumeric(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z');
}

/// Returns true if a byte is valid in host names.
static bool is_of_name(char byte) { return is_alphanumeric(byte) || is_in(byte, "-_."); }

/// Returns true if a text looks like an IPv6 address in brackets, which HTTP uses as a host.
static bool is_bracketed(const char *text, size_t length) {
    if (length < 3 || *text != '[' || text[length - 1] != ']')
        return false;
    for (size_t i = 1; i < length - 1; i++)
        if (!is_in(text[i], "0123456789abcdefABCDEF:."))
            return false;
    return true;
}

/// Checks a name in ASCII, after removal of `*.` and of a final dot. Returns NULL, or the error
/// text.
static const char *check(const char *text, size_t length) {
    size_t label = 0, longest = 0;
    bool has_empty = length == 0, is_good = true;

    if (memchr(text, '*', length))
        return "a `*` is allowed only in front, followed by a dot: \"*.example.com\"";
    for (size_t i = 0; i < length; i++) {
        is_good &= is_of_name(text[i]);
        label = text[i] == '.' ? 0 : label + 1;
        longest = label > longest ? label : longest;
        has_empty |= text[i] == '.' && (i == 0 || i + 1 == length || text[i + 1] == '.');
    }
    if (!is_good && !is_bracketed(text, length))
        return "not the name of a host: letters, digits, `-`, `_` and dots";
    if (length > NAMES_HOST_BYTES)
        return LABEL_NAME_TOO_LONG;
    if (has_empty)
        return "a host's name has no empty label";
    return longest > LABEL_BYTES ? LABEL_TOO_LONG : NULL;
}

/// Checks an ASCII name without `*.`, and stores it in lower case, without its final dot. Returns
/// NULL, or the error text.
static const char *store(const char *text, size_t length, struct hostname *name) {
    const char *cause;

    length -= length > 0 && text[length - 1] == '.';
    cause = check(text, length);
    if (cause)
        return cause;
    name->length = length;
    for (size_t i = 0; i < length; i++)
        name->bytes[i] = (uint8_t)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    return NULL;
}

const char *hostname_parse(const char *text, size_t length, struct hostname *name) {
    char made[LABEL_NAME_BYTES];
    size_t made_length;
    const char *cause;

    if (length == 1 && *text == '*')
        return "this matches every name: test whether there is one, with `exists`";
    *name = (struct hostname){.wildcard = length > 1 && memcmp(text, "*.", 2) == 0};
    if (name->wildcard) {
        text += 2;
        length -= 2;
    }
    cause = label_to_ascii(text, length, made, &made_length);
    return cause ? cause : store(made, made_length, name);
}

struct hostnames *hostname_make(void) {
    struct hostnames *hostnames = calloc(1, sizeof *hostnames);

    if (hostnames)
        hostnames->owners = 1;
    return hostnames;
}

struct hostnames *hostname_share(struct hostnames *hostnames) {
    if (hostnames)
        __atomic_add_fetch(&hostnames->owners, 1, __ATOMIC_RELAXED);
    return hostnames;
}

/// Returns the size of a table's slots and filter, in bytes.
static size_t table_bytes(size_t slot_count) {
    return WORD_BYTES * (slot_count + slot_count / FILTER_SLOTS);
}

void hostname_free(struct hostnames *hostnames) {
    if (!hostnames || __atomic_sub_fetch(&hostnames->owners, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pages_free(hostnames->records, hostnames->records_room);
    free(hostnames->ends);
    pages_free(hostnames->table, table_bytes(hostnames->slot_count));
    free(hostnames);
}

uint32_t hostname_count(const struct hostnames *hostnames) {
    return hostnames ? hostnames->count : 0;
}

/// Returns the form of a name: twice its length, plus 1 for a wildcard.
static uint32_t form(size_t length, bool wildcard) { return (uint32_t)(2 * length + wildcard); }

/// Returns the last word of the record that ends at the offset `place`.
static uint64_t last_word(const struct hostnames *hostnames, uint32_t place) {
    return pages_word(hostnames->records, place - WORD_BYTES);
}

uint32_t hostname_id_at(const struct hostnames *hostnames, uint32_t place) {
    return (uint32_t)(last_word(hostnames, place) >> 32);
}

struct host_interval hostname_interval_at(const struct hostnames *hostnames, uint32_t place) {
    const uint64_t word = pages_word(hostnames->records, place - TAIL_BYTES);

    return (struct host_interval){(uint32_t)word, (uint32_t)(word >> 32)};
}

/// Returns the offset of the end of a name's record.
static uint32_t place_of(const struct hostnames *hostnames, uint32_t id) {
    return hostnames->ends[id];
}

struct host_interval hostname_interval(const struct hostnames *hostnames, uint32_t id) {
    return hostname_interval_at(hostnames, place_of(hostnames, id));
}

void hostname_set_interval(struct hostnames *hostnames, uint32_t id,
                           struct host_interval interval) {
    const uint64_t word = (uint64_t)interval.last << 32 | interval.own;

    pages_set_word(hostnames->records, place_of(hostnames, id) - TAIL_BYTES, word);
}

const uint8_t *hostname_get(const struct hostnames *hostnames, uint32_t id, size_t *length,
                            bool *wildcard) {
    const uint32_t place = place_of(hostnames, id);
    const uint32_t kept = (uint32_t)last_word(hostnames, place);

    *length = kept / 2;
    *wildcard = kept % 2 == 1;
    return &hostnames->records[place - TAIL_BYTES - *length];
}

void hostname_put_text(FILE *out, const struct hostnames *hostnames, uint32_t id) {
    size_t length;
    bool wildcard;
    const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);

    fputs(wildcard ? "*." : "", out);
    fwrite(name, 1, length, out);
}

static uint64_t hash(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                     bool wildcard) {
    return siphash_bytes(&hostnames->key, name, length, wildcard);
}

/// Returns true if the record that ends at the offset `place` is the record of this name.
static bool is_name(const struct hostnames *hostnames, uint32_t place, const uint8_t *name,
                    size_t length, bool wildcard) {
    return (uint32_t)last_word(hostnames, place) == form(length, wildcard) &&
           memcmp(&hostnames->records[place - TAIL_BYTES - length], name, length) == 0;
}

/// Returns the byte offset in the table of the filter word for a hash.
static size_t filter_at(const struct hostnames *hostnames, uint64_t hashed) {
    const size_t word = (size_t)hashed & (hostnames->slot_count / FILTER_SLOTS - 1);

    return WORD_BYTES * (hostnames->slot_count + word);
}

/// Returns the mask of a name in its word of the Bloom filter: the three bits that the name's hash
/// selects. Some of the three may be the same bit.
static uint64_t filter_bits(uint64_t hashed) {
    return UINT64_C(1) << (hashed >> 32 & 63) | UINT64_C(1) << (hashed >> 38 & 63) |
           UINT64_C(1) << (hashed >> 44 & 63);
}

/// Searches a name in the slots. Returns the name's slot, or the first empty slot. There must be
/// slots.
static struct probe probe(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                          bool wildcard, uint64_t hashed) {
    const size_t mask = hostnames->slot_count - 1;
    size_t slot = (size_t)hashed & mask;

    for (uint32_t passed = 0;; passed++) {
        const uint64_t word = pages_word(hostnames->table, WORD_BYTES * slot);
        const uint32_t place = (uint32_t)word;
        const bool has_tag = word >> 32 == hashed >> 32;

        if (place == 0 || (has_tag && is_name(hostnames, place, name, length, wildcard)))
            return (struct probe){slot, place, passed};
        slot = (slot + 1) & mask;
    }
}

uint32_t hostname_search(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                         bool wildcard) {
    uint64_t hashed, bits;

    if (hostname_count(hostnames) == 0)
        return 0;
    hashed = hash(hostnames, name, length, wildcard);
    bits = filter_bits(hashed);
    if ((pages_word(hostnames->table, filter_at(hostnames, hashed)) & bits) != bits)
        return 0;
    return probe(hostnames, name, length, wildcard, hashed).place;
}

uint32_t hostname_find(const struct hostnames *hostnames, const uint8_t *name, size_t length,
                       bool wildcard) {
    const uint32_t place = hostname_search(hostnames, name, length, wildcard);

    return place > 0 ? hostname_id_at(hostnames, place) : HOSTNAME_NONE;
}

/// Inserts a name into an empty slot and into the filter.
static void enter(struct hostnames *hostnames, size_t slot, uint64_t hashed, uint32_t place) {
    const size_t at = filter_at(hostnames, hashed);
    const uint64_t bits = pages_word(hostnames->table, at) | filter_bits(hashed);

    pages_set_word(hostnames->table, WORD_BYTES * slot, hashed >> 32 << 32 | place);
    pages_set_word(hostnames->table, at, bits);
}

/// Inserts all names into empty slots. Returns false if a search would examine too many slots.
static bool fill(struct hostnames *hostnames) {
    for (uint32_t id = 0; id < hostnames->count; id++) {
        size_t length;
        bool wildcard;
        const uint8_t *name = hostname_get(hostnames, id, &length, &wildcard);
        const uint64_t hashed = hash(hostnames, name, length, wildcard);
        const struct probe found = probe(hostnames, name, length, wildcard, hashed);

        if (found.passed >= PROBES_MAX)
            return false;
        enter(hostnames, found.slot, hashed, place_of(hostnames, id));
    }
    return true;
}

/// Replaces the table by a table with twice as many slots and a new key, with all names. Repeats
/// this if a search would examine too many slots. Returns 0 or -ENOMEM.
static int grow(struct hostnames *hostnames) {
    do {
        const size_t count = hostnames->slot_count > 0 ? 2 * hostnames->slot_count : SLOTS_MIN;
        uint8_t *table = pages_make(table_bytes(count));

        if (!table)
            return -ENOMEM;
        pages_free(hostnames->table, table_bytes(hostnames->slot_count));
        hostnames->table = table;
        hostnames->slot_count = count;
        hostnames->key = siphash_draw();
    } while (!fill(hostnames));
    return 0;
}

/// Makes room for another name, whose record ends at the offset `end`. Returns 0 or -ENOMEM.
static int make_room(struct hostnames *hostnames, size_t end) {
    const uint32_t count = hostnames->count;

    if ((count & (count - 1)) == 0) {
        uint32_t *ends = realloc(hostnames->ends, (count > 0 ? 2ULL * count : 1) * sizeof *ends);

        if (!ends)
            return -ENOMEM;
        hostnames->ends = ends;
    }
    if (end > hostnames->records_room) {
        const size_t room = pages_round(2 * end);
        uint8_t *records = pages_make(room);

        if (!records)
            return -ENOMEM;
        if (count > 0)
            memcpy(records, hostnames->records, hostnames->ends[count - 1]);
        pages_free(hostnames->records, hostnames->records_room);
        hostnames->records = records;
        hostnames->records_room = room;
    }
    return 0;
}

/// Appends the record of a name. Returns 0 or -ENOMEM.
static int append(struct hostnames *hostnames, const uint8_t *name, size_t length, bool wildcard) {
    const uint32_t count = hostnames->count;
    const size_t start = count > 0 ? hostnames->ends[count - 1] : 0, last = start + length;
    const uint64_t word = (uint64_t)count << 32 | form(length, wildcard);

    if (make_room(hostnames, last + TAIL_BYTES) < 0)
        return -ENOMEM;
    memcpy(&hostnames->records[start], name, length);
    pages_set_word(hostnames->records, last + WORD_BYTES, word);
    hostnames->ends[count] = (uint32_t)(last + TAIL_BYTES);
    hostnames->count++;
    return 0;
}

int hostname_add(struct hostnames *hostnames, const uint8_t *name, size_t length, bool wildcard,
                 uint32_t *id) {
    const uint32_t count = hostnames->count;
    struct probe found;
    uint64_t hashed;

    if (2 * (count + 1ULL) > hostnames->slot_count && grow(hostnames) < 0)
        return -ENOMEM;
    for (;;) {
        hashed = hash(hostnames, name, length, wildcard);
        found = probe(hostnames, name, length, wildcard, hashed);
        if (found.place > 0) {
            *id = hostname_id_at(hostnames, found.place);
            return 0;
        }
        if (found.passed < PROBES_MAX)
            break;
        if (grow(hostnames) < 0)
            return -ENOMEM;
    }
    if (append(hostnames, name, length, wildcard) < 0)
        return -ENOMEM;
    *id = count;
    enter(hostnames, found.slot, hashed, place_of(hostnames, count));
    return 0;
}
