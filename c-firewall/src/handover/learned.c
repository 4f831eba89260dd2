// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/learned.h"

#include <stdbool.h>

#include "engine/learned.h"
#include "engine/teach.h"
#include "handover/record.h"

enum {
    FORM = 1,
    FORM_BYTES = 4,
    WORD_BYTES = 8,
    // Size of the record of an address, in bytes: set, address and lifetime.
    ADDRESS_BYTES = 4 * WORD_BYTES,
    COUNT_BYTES = 4, // size of the address count after the last address, in bytes
};

#define SECOND_NS UINT64_C(1000000000)

/// Returns the policy's set that has an identity (a number computed from the set's text); NULL if
/// there is none.
static const struct compile_learning *set_of(const struct compiled *compiled, uint64_t identity) {
    for (uint32_t i = 0; i < compiled->learning_count; i++)
        if (compiled->learning[i].identity == identity)
            return &compiled->learning[i];
    return NULL;
}

static void append_address(struct handover_record *record, const struct learned_address *address,
                           uint64_t now_ns) {
    handover_record_append_number(record, address->set, WORD_BYTES);
    handover_record_append_number(record, (uint64_t)address->address, WORD_BYTES);
    handover_record_append_number(record, (uint64_t)(address->address >> 64), WORD_BYTES);
    handover_record_append_number(record, address->end_ns - now_ns, WORD_BYTES);
}

/// Writes the addresses of the policy's sets. Returns 0 or -errno.
/// - count: in/out: number of written addresses.
static int write_addresses(struct handover_memory *memory, const struct compiled *compiled,
                           uint64_t now_ns, uint32_t *count) {
    const uint32_t places = compiled->learned ? learned_places(compiled->learned) : 0;
    struct learned_address address;
    struct handover_record record;
    int result = 0;

    for (uint32_t place = 0; result == 0 && place < places; place++) {
        if (!learned_at(compiled->learned, place, now_ns, &address) ||
            !set_of(compiled, address.set))
            continue;
        record.length = 0;
        append_address(&record, &address, now_ns);
        result = handover_memory_append(memory, record.bytes, record.length);
        ++*count;
    }
    return result;
}

int handover_learned_write(struct handover_memory *memory, const struct compiled *compiled,
                           uint64_t now_ns) {
    struct handover_record record;
    uint32_t count = 0;
    int result;

    record.length = 0;
    handover_record_append_number(&record, FORM, FORM_BYTES);
    result = handover_memory_append(memory, record.bytes, record.length);
    if (result == 0)
        result = write_addresses(memory, compiled, now_ns, &count);
    if (result < 0)
        return result;
    record.length = 0;
    handover_record_append_number(&record, count, COUNT_BYTES);
    return handover_memory_append(memory, record.bytes, record.length);
}

/// Parses an address and adds it to its set. An address of a set that the policy does not have is
/// only counted. Returns NULL, or the name of the invalid part.
static const char *decode_address(struct handover_reading *reading, const struct compiled *compiled,
                                  uint64_t now_ns, struct handover_learned_taken *taken) {
    const uint64_t identity = handover_record_number(reading, WORD_BYTES);
    const uint64_t low = handover_record_number(reading, WORD_BYTES);
    const uint64_t high = handover_record_number(reading, WORD_BYTES);
    const uint64_t left_ns = handover_record_number(reading, WORD_BYTES);
    const policy_value address = (policy_value)high << 64 | low;
    const struct compile_learning *set = set_of(compiled, identity);

    if (left_ns == 0 || left_ns > TEACH_TTL_MAX * SECOND_NS)
        return "time";
    if (!set) {
        taken->other++;
        return NULL;
    }
    if (!set->kernel.is_ipv6 && address > UINT32_MAX)
        return "address";
    if (learned_find(compiled->learned, identity, address, now_ns))
        return "address";
    if (learned_add(compiled->learned, identity, address, now_ns + left_ns, now_ns))
        taken->left_out++;
    else
        taken->taken++;
    return NULL;
}

static const char *parse_all(const uint8_t *bytes, size_t length, const struct compiled *compiled,
                             uint64_t now_ns, struct handover_learned_taken *taken) {
    struct handover_reading reading, end;
    const char *wrong = NULL;
    uint64_t told;

    if (length < FORM_BYTES + COUNT_BYTES)
        return "length";
    length -= COUNT_BYTES;
    end = handover_record_begin(bytes + length, COUNT_BYTES);
    told = handover_record_number(&end, COUNT_BYTES);
    reading = handover_record_begin(bytes, length);
    if (handover_record_number(&reading, FORM_BYTES) != FORM)
        return "form";
    if (reading.left != told * ADDRESS_BYTES)
        return "count";
    for (uint64_t i = 0; !wrong && i < told; i++)
        wrong = decode_address(&reading, compiled, now_ns, taken);
    return wrong;
}

const char *handover_learned_parse(const uint8_t *bytes, size_t length,
                                   const struct compiled *compiled, uint64_t now_ns,
                                   struct handover_learned_taken *taken) {
    const char *wrong;

    *taken = (struct handover_learned_taken){0};
    wrong = parse_all(bytes, length, compiled, now_ns, taken);
    if (wrong) {
        *taken = (struct handover_learned_taken){0};
        learned_forget_all(compiled->learned);
    }
    return wrong;
}
