// SPDX-License-Identifier: GPL-2.0-or-later
// Fields of a packet for a policy: read once, then compared by all rules.
#ifndef ENGINE_FIELDS_H
#define ENGINE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

enum {
    FIELDS_IPV4 = 2,  // value of NFPROTO_IPV4 (linux/netfilter.h)
    FIELDS_IPV6 = 10, // value of NFPROTO_IPV6
    // Number of wide fields: ip6 saddr, ip6 daddr, iifname, oifname, http method.
    FIELDS_WIDE_COUNT = 5,
    FIELDS_KEY_WORDS_MAX = 2 * POLICY_KEY_FIELDS_MAX,
};

/// Values of a packet's fields. Fields of up to 32 bits are narrow, others wide. A field is
/// present, absent from the packet (in no mask), beyond the captured bytes (the packet has it or
/// may have it), or unknown (a name, or a mark with several possible values).
struct fields {
    uint64_t present; // bit n is set if field n has a value
    uint64_t beyond;  // bit n is set if field n lies beyond the captured bytes
    // Bit n is set if field n is a name that is not known yet or is unreadable, or a mark with
    // several possible values.
    uint64_t unknown;
    uint32_t narrow[POLICY_FIELD_COUNT];
    policy_value wide[FIELDS_WIDE_COUNT]; // values of wide fields, by fields_wide_slot
};

struct decide_input;

/// Bit of a field in the masks of struct fields.
#define FIELDS_BIT(field) (1ULL << (field))

static inline bool fields_is_present(const struct fields *fields, enum policy_field field) {
    return fields->present & FIELDS_BIT(field);
}

/// Returns true if the packet's names are known, and the policy reads names. Then `tls ech` has a
/// value, whatever the protocol.
static inline bool fields_has_names(const struct fields *fields) {
    return fields_is_present(fields, POLICY_TLS_ECH);
}

/// Returns the index of a wide field (more than 32 bits) in the array `wide` of struct fields.
/// Returns FIELDS_WIDE_COUNT for a narrow field.
uint32_t fields_wide_slot(enum policy_field field);

/// Reads fields. A field is absent if the packet does not have it, or ends before the field's end.
/// - wanted: bits of the fields to read; others may stay absent.
/// - nfproto: FIELDS_IPV4 or FIELDS_IPV6.
void fields_read(struct fields *fields, uint64_t wanted, uint8_t nfproto,
                 const struct decide_input *input);

/// Returns the bits of the header fields after the IP header, of all protocols.
uint64_t fields_behind_ip(void);

/// Returns the value of a field that is present.
policy_value fields_value(const struct fields *fields, enum policy_field field);

/// Stores the values of a key's fields in words, in the form of a lookup_hash key: two words for a
/// wide field, upper half first.
/// - Returns the number of words, or 0 if a field is not present.
uint32_t fields_words(const struct fields *fields, const struct policy_key *key,
                      uint64_t words[FIELDS_KEY_WORDS_MAX]);

#endif
