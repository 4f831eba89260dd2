// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/answer.h"

#include <ctype.h>
#include <string.h>

#include "names/cursor.h"

enum {
    TYPE_CNAME = 5,
    CLASS_IN = 1,
    // Bits of the header's 16 flag bits: answer (QR), kind of query (OPCODE: 0 = standard),
    // truncated (TC), error code (RCODE: 0 = no error).
    ANSWER = 0x8000,
    OPCODE = 0x7800,
    TRUNCATED = 0x0200,
    RCODE = 0x000f,
    HEADER_BYTES = 12,
    // Size of the rest of the header after the number of answers, in bytes: two 16-bit counts.
    COUNTS_BYTES = 4,
    // Maximum length of a label in bytes. Values from POINTER on are compression pointers; the
    // values in between are reserved.
    LABEL_BYTES_MAX = 63,
    POINTER = 0xc0,
    POINTERS_MAX = 127, // maximum number of pointers that are followed for one name
};

// First TTL value that counts as 0 (RFC 2181, section 8).
#define TTL_END (UINT32_C(1) << 31)

/// Bytes of a DNS message.
struct message {
    const uint8_t *bytes;
    uint32_t length;
};

/// Resource record without its name.
struct record {
    bool is_internet;
    uint16_t kind;
    uint32_t ttl;
    uint32_t data_offset; // offset of the record's data in the message
    struct names_cursor data;
};

/// Returns a cursor at an offset of a message. The cursor is empty and cut if the offset exceeds
/// the message's length.
static struct names_cursor begin_at(const struct message *message, uint32_t offset) {
    if (offset > message->length)
        return (struct names_cursor){.bytes = message->bytes, .cut = true};
    return names_cursor_begin(message->bytes + offset, message->length - offset);
}

/// Appends a label to a name. Returns false if the label contains a dot, which would look like two
/// labels, or the name becomes too long.
static bool add_label(struct answer_host *host, const struct names_cursor *label) {
    const uint32_t before = host->length;
    const uint32_t start = before + (before > 0);
    const uint32_t end = start + label->length;

    if (end > NAMES_HOST_BYTES || memchr(label->bytes, '.', label->length))
        return false;
    host->bytes[before] = '.';
    for (uint32_t i = 0; i < label->length; i++)
        host->bytes[start + i] = (uint8_t)tolower(label->bytes[i]);
    host->length = (uint8_t)end;
    return true;
}

/// Reads a name, and follows its compression pointers. Each pointer's target must lie before the
/// name, and before the previous pointer's target.
/// - offset: offset of the name in the message.
/// - host: out: the name.
/// - Returns the offset after the name's bytes at `offset`; 0 if the name is malformed.
static uint32_t parse_name(const struct message *message, uint32_t offset,
                           struct answer_host *host) {
    struct names_cursor left = begin_at(message, offset);
    uint32_t end = 0, limit = offset, pointers = 0;

    *host = (struct answer_host){0};
    for (;;) {
        uint32_t length = names_cursor_number(&left, 1);
        struct names_cursor label;

        if (length >= POINTER) {
            length = (length - POINTER) << 8 | names_cursor_number(&left, 1);
            if (left.cut || length < HEADER_BYTES || length >= limit || pointers == POINTERS_MAX)
                return 0;
            if (end == 0)
                end = message->length - left.length;
            pointers++;
            limit = length;
            left = begin_at(message, length);
            continue;
        }
        label = names_cursor_part(&left, length);
        if (label.cut || length > LABEL_BYTES_MAX)
            return 0;
        if (length == 0)
            return end > 0 ? end : message->length - left.length;
        if (!add_label(host, &label))
            return 0;
    }
}

/// Reads a record. Returns false if the record is cut.
/// - offset: offset after the record's name.
static bool parse_record(const struct message *message, uint32_t offset, struct record *record) {
    struct names_cursor left = begin_at(message, offset);
    uint32_t bytes;

    record->kind = (uint16_t)names_cursor_number(&left, 2);
    record->is_internet = names_cursor_number(&left, 2) == CLASS_IN;
    record->ttl = names_cursor_number(&left, 4);
    if (record->ttl >= TTL_END)
        record->ttl = 0;
    bytes = names_cursor_number(&left, 2);
    record->data_offset = message->length - left.length;
    record->data = names_cursor_part(&left, bytes);
    return !record->data.cut;
}

/// Adds a record's address to the answer, and lowers the answer's TTL to the record's. Returns
/// false if the data is no address of the question's type or there is no room.
static bool add_address(const struct record *record, struct answer *answer) {
    const uint32_t bytes = answer->dns_type == NAMES_ANSWER_TYPE_A ? 4 : 16;
    unsigned __int128 address = 0;

    if (answer->count == NAMES_ANSWER_ADDRESSES_MAX || record->data.length != bytes)
        return false;
    for (uint32_t i = 0; i < bytes; i++)
        address = address << 8 | record->data.bytes[i];
    answer->addresses[answer->count++] = address;
    if (record->ttl < answer->ttl)
        answer->ttl = record->ttl;
    return true;
}

/// Reads the answer records, and adds the addresses of the question's name, also after aliases.
/// Returns false if a record is malformed, or there are more than NAMES_ANSWER_ADDRESSES_MAX
/// addresses.
/// - offset: offset of the first record in the message.
static bool parse_records(const struct message *message, uint32_t offset, uint32_t records,
                          struct answer *answer) {
    struct answer_host sought = answer->host, owner;

    for (uint32_t i = 0; i < records; i++) {
        const uint32_t behind = parse_name(message, offset, &owner);
        struct record record;

        if (behind == 0 || !parse_record(message, behind, &record))
            return false;
        offset = record.data_offset + record.data.length;
        if (!record.is_internet || memcmp(&owner, &sought, sizeof owner) != 0)
            continue;
        if (record.kind == TYPE_CNAME) {
            if (parse_name(message, record.data_offset, &sought) != offset)
                return false;
            if (record.ttl < answer->ttl)
                answer->ttl = record.ttl;
        } else if (record.kind == answer->dns_type && !add_address(&record, answer)) {
            return false;
        }
    }
    return true;
}

bool names_answer_asks_address(const struct answer *answer) {
    return answer->class == CLASS_IN &&
           (answer->dns_type == NAMES_ANSWER_TYPE_A || answer->dns_type == NAMES_ANSWER_TYPE_AAAA);
}

uint32_t names_answer_question(const uint8_t *message, uint32_t length, struct answer *answer) {
    const struct message all = {message, length};
    struct names_cursor left = begin_at(&all, 0);
    uint32_t flags, questions, offset;

    answer->id = (uint16_t)names_cursor_number(&left, 2);
    flags = names_cursor_number(&left, 2);
    questions = names_cursor_number(&left, 2);
    answer->is_answer = flags & ANSWER;
    if ((flags & OPCODE) || questions != 1)
        return 0;
    offset = parse_name(&all, HEADER_BYTES, &answer->host);
    if (offset == 0)
        return 0;
    left = begin_at(&all, offset);
    answer->dns_type = (uint16_t)names_cursor_number(&left, 2);
    answer->class = (uint16_t)names_cursor_number(&left, 2);
    return left.cut ? 0 : length - left.length;
}

bool names_answer_parse(const uint8_t *message, uint32_t length, uint32_t offset,
                        struct answer *answer) {
    const struct message all = {message, length};
    struct names_cursor left = begin_at(&all, 0);
    uint32_t flags, records;
    bool is_read;

    names_cursor_number(&left, 2);
    flags = names_cursor_number(&left, 2);
    names_cursor_number(&left, 2);
    records = names_cursor_number(&left, 2);
    names_cursor_part(&left, COUNTS_BYTES);
    answer->count = 0;
    answer->ttl = TTL_END - 1;
    is_read = !left.cut && parse_records(&all, offset, records, answer);
    if (!is_read || (flags & (TRUNCATED | RCODE)))
        answer->count = 0;
    return is_read;
}
