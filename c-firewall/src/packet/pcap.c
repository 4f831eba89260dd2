// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet/pcap.h"

#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "packet/pcap_link.h"

enum {
    MAGIC_US = 0xa1b2c3d4,
    MAGIC_NS = 0xa1b23c4d,
    MAGIC_NG = 0x0a0d0d0a, // block type of a Section Header Block, the same in both byte orders
    MAGIC_NG_ORDER = 0x1a2b3c4d, // byte-order magic in a Section Header Block
    HEAD_BYTES = 24,             // size of the header of a pcap file
    RECORD_BYTES = 16,           // size of the header of each packet in a pcap file
    BLOCK_HEAD_BYTES = 8,        // size of type and length of a pcapng block
    // Minimum size of a pcapng block: type, and length before and after its body.
    BLOCK_LEAST = 12,
    SECTION_BYTES = 16,       // minimum size of a Section Header Block's body
    INTERFACE_BYTES = 8,      // size of an Interface Description Block's body, without options
    PACKET_BYTES = 20,        // size of the fields before the packet in an Enhanced Packet Block
    SIMPLE_BYTES = 4,         // size of the fields before the packet in a Simple Packet Block
    BLOCK_INTERFACE = 1,      // type of an Interface Description Block
    BLOCK_SIMPLE = 3,         // type of a Simple Packet Block
    BLOCK_PACKET = 6,         // type of an Enhanced Packet Block
    OPTION_HEAD_BYTES = 4,    // size of code and length of a pcapng option
    OPTION_COMMENT = 1,       // code of the pcapng option opt_comment (a comment)
    OPTION_RESOLUTION = 9,    // code of the pcapng option if_tsresol (resolution of time stamps)
    OPTION_OFFSET = 14,       // code of the pcapng option if_tsoffset (offset of time stamps)
    RESOLUTION_US = 6,        // value of if_tsresol for a resolution of 10^-6 seconds
    RESOLUTION_NS = 9,        // value of if_tsresol for a resolution of 10^-9 seconds
    RESOLUTION_BINARY = 0x80, // bit of if_tsresol for a resolution of 2^-n seconds
    RESOLUTION_MAX = 19,      // maximum n of a resolution of 10^-n seconds: 64 bits hold 10^19
    RESOLUTION_BINARY_MAX = 63,
};

#define NS_PER_SECOND UINT64_C(1000000000)

static uint16_t u16_at(const struct pcap *pcap, const uint8_t *bytes) {
    uint16_t value;

    memcpy(&value, bytes, sizeof value);
    return pcap->swapped ? bswap_16(value) : value;
}

static uint32_t u32_at(const struct pcap *pcap, const uint8_t *bytes) {
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return pcap->swapped ? bswap_32(value) : value;
}

static uint64_t u64_at(const struct pcap *pcap, const uint8_t *bytes) {
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return pcap->swapped ? bswap_64(value) : value;
}

/// Fills in a failure for damage at a byte of the capture. Returns -EINVAL.
static int fail_at(const struct pcap *pcap, uint64_t at, const char *cause,
                   struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE, "%s: the capture is damaged at byte %" PRIu64 ": %s",
                pcap->name, at, cause);
    return -EINVAL;
}

static int fail_reading(const struct pcap *pcap, int error, struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE, "%s: cannot read the capture: %s", pcap->name,
                strerror(error));
    return -error;
}

/// Fills `bytes` from the capture. Returns 1; 0 if no byte is left and `may_end` is set; otherwise
/// -errno with failure filled in, also if too few bytes are left.
static int read_bytes(struct pcap *pcap, uint8_t *bytes, size_t count, bool may_end,
                      struct failure *failure) {
    const size_t got = fread(bytes, 1, count, pcap->file);

    if (got == count) {
        pcap->at += count;
        return 1;
    }
    if (ferror(pcap->file))
        return fail_reading(pcap, errno, failure);
    return got == 0 && may_end ? 0 : fail_at(pcap, pcap->at, "it ends here", failure);
}

/// Reads the next `count` bytes of the capture into pcap.block. Returns 1, or -errno with failure
/// filled in.
static int read_block(struct pcap *pcap, size_t count, struct failure *failure) {
    if (count > PCAP_BLOCK_MAX)
        return fail_at(pcap, pcap->at, "a packet or block of more than 16 MiB", failure);
    if (count > pcap->block_room) {
        uint8_t *block = realloc(pcap->block, count);

        if (!block)
            return fail_reading(pcap, ENOMEM, failure);
        pcap->block = block;
        pcap->block_room = count;
    }
    return read_bytes(pcap, pcap->block, count, false, failure);
}

static int add_interface(struct pcap *pcap, const struct pcap_interface *interface,
                         struct failure *failure) {
    const uint32_t count = pcap->interface_count;
    struct pcap_interface *interfaces;

    if (count == PCAP_INTERFACES_MAX)
        return fail_at(pcap, pcap->at, "more than 4096 interfaces", failure);
    if (!pcap_link_is_known(interface->link)) {
        failure_set(failure, LOG_EXIT_USAGE,
                    "%s: packets of link type %u are not understood: capture Ethernet, Linux "
                    "cooked or raw IP",
                    pcap->name, interface->link);
        return -EINVAL;
    }
    interfaces = realloc(pcap->interfaces, (count + 1) * sizeof *interfaces);
    if (!interfaces)
        return fail_reading(pcap, ENOMEM, failure);
    pcap->interfaces = interfaces;
    pcap->interfaces[pcap->interface_count++] = *interface;
    return 1;
}

/// Reads the rest of a pcap file's header, after its magic number, and adds the file's interface.
/// Returns 1 or -errno.
static int open_pcap(struct pcap *pcap, uint32_t magic, struct failure *failure) {
    struct pcap_interface interface = {.resolution =
                                           magic == MAGIC_NS ? RESOLUTION_NS : RESOLUTION_US};
    const int result = read_block(pcap, HEAD_BYTES - sizeof magic, failure);

    if (result < 0)
        return result;
    // The link type follows version, zone, accuracy and snap length, which are not needed.
    interface.link = (uint16_t)u32_at(pcap, pcap->block + 16);
    return add_interface(pcap, &interface, failure);
}

/// Reads the rest of a Section Header Block, after the block's type. Returns 1 or -errno.
static int open_section(struct pcap *pcap, struct failure *failure) {
    const uint64_t at = pcap->at - sizeof(uint32_t);
    uint8_t head[8]; // block's length and byte-order magic
    uint32_t order, length;
    int result = read_bytes(pcap, head, sizeof head, false, failure);

    if (result < 0)
        return result;
    memcpy(&order, head + 4, sizeof order);
    pcap->swapped = order == bswap_32(MAGIC_NG_ORDER);
    if (order != MAGIC_NG_ORDER && !pcap->swapped)
        return fail_at(pcap, at, "a section of no known byte order", failure);
    pcap->interface_count = 0;
    length = u32_at(pcap, head);
    if (length % 4 != 0 || length < BLOCK_LEAST + SECTION_BYTES)
        return fail_at(pcap, at, "a block of an impossible length", failure);
    result = read_block(pcap, length - sizeof order - sizeof head, failure);
    if (result < 0)
        return result;
    if (u16_at(pcap, pcap->block) != 1)
        return fail_at(pcap, at, "a section of an unknown version", failure);
    if (u32_at(pcap, pcap->block + length - BLOCK_LEAST - 4) != length)
        return fail_at(pcap, at, "a block whose two lengths differ", failure);
    return 1;
}

static int open_head(struct pcap *pcap, struct failure *failure) {
    uint8_t begin[4];
    uint32_t magic;
    const int result = read_bytes(pcap, begin, sizeof begin, false, failure);

    if (result < 0)
        return result;
    memcpy(&magic, begin, sizeof magic);
    pcap->is_ng = magic == MAGIC_NG;
    if (pcap->is_ng)
        return open_section(pcap, failure);
    pcap->swapped = magic == bswap_32(MAGIC_US) || magic == bswap_32(MAGIC_NS);
    magic = u32_at(pcap, begin);
    if (magic != MAGIC_US && magic != MAGIC_NS)
        return fail_at(pcap, 0, "it is neither pcap nor pcapng", failure);
    return open_pcap(pcap, magic, failure);
}

int pcap_open(struct pcap *pcap, const char *path, struct failure *failure) {
    int result;

    *pcap = (struct pcap){.name = path};
    pcap->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!pcap->file)
        return fail_reading(pcap, errno, failure);
    result = open_head(pcap, failure);
    if (result < 0) {
        pcap_close(pcap);
        return result;
    }
    return 0;
}

void pcap_close(struct pcap *pcap) {
    if (pcap->file && pcap->file != stdin)
        fclose(pcap->file);
    free(pcap->block);
    free(pcap->interfaces);
    *pcap = (struct pcap){0};
}

/// Converts a time stamp in units of the interface's resolution to nanoseconds, and adds the
/// interface's offset.
static uint64_t time_of(const struct pcap_interface *interface, uint64_t stamp) {
    const uint8_t power = interface->resolution & (uint8_t)~RESOLUTION_BINARY;
    const uint64_t offset_ns = (uint64_t)interface->offset_s * NS_PER_SECOND;
    uint64_t scale = 1;

    if (interface->resolution & RESOLUTION_BINARY)
        return (uint64_t)(((unsigned __int128)stamp * NS_PER_SECOND) >> power) + offset_ns;
    for (int i = power; i < RESOLUTION_NS; i++)
        scale *= 10;
    if (power <= RESOLUTION_NS)
        return stamp * scale + offset_ns;
    for (int i = RESOLUTION_NS; i < power; i++)
        scale *= 10;
    return stamp / scale + offset_ns;
}

/// Captured frame. `bytes` and `comment` point into pcap.block.
struct frame {
    uint16_t link;
    uint64_t time_ns;
    const uint8_t *bytes;
    uint32_t captured;
    uint32_t original;
    // Text after PCAP_COMMENT_BEGIN in the frame's first comment with it; NULL if there is none.
    const uint8_t *comment;
    size_t comment_bytes;
};

/// Reads the next record of a pcap file. Returns 1, 0 at the end, or -errno.
static int next_record(struct pcap *pcap, struct frame *frame, struct failure *failure) {
    const struct pcap_interface *interface = pcap->interfaces;
    uint8_t head[RECORD_BYTES];
    int result = read_bytes(pcap, head, sizeof head, true, failure);

    if (result <= 0)
        return result;
    *frame = (struct frame){
        .link = interface->link,
        .time_ns = u32_at(pcap, head) * NS_PER_SECOND + time_of(interface, u32_at(pcap, head + 4)),
        .captured = u32_at(pcap, head + 8),
        .original = u32_at(pcap, head + 12),
    };
    result = read_block(pcap, frame->captured, failure);
    frame->bytes = pcap->block;
    return result;
}

/// Rounds a length up to a multiple of 4 bytes, at which the next part of a block begins.
static size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

/// Option of a pcapng block: its code and its value.
struct block_option {
    uint16_t code;
    const uint8_t *value;
    size_t bytes;
};

/// Reads the next option of a block whose options end at `end`. Returns 1, or 0 if there is no more
/// option, or -EINVAL if the option is damaged.
/// - at: in: offset of the option; out: offset after it.
static int next_option(const struct pcap *pcap, size_t *at, size_t end,
                       struct block_option *option) {
    const uint8_t *head = pcap->block + *at;

    if (end - *at < OPTION_HEAD_BYTES || u16_at(pcap, head) == 0)
        return 0;
    *option = (struct block_option){
        .code = u16_at(pcap, head),
        .value = head + OPTION_HEAD_BYTES,
        .bytes = u16_at(pcap, head + 2),
    };
    if (padded(option->bytes) > end - *at - OPTION_HEAD_BYTES)
        return -EINVAL;
    *at += OPTION_HEAD_BYTES + padded(option->bytes);
    return 1;
}

/// Parses the options of an interface description, which end at `end`, into `interface`. Returns
/// true if they are valid.
static bool parse_options(const struct pcap *pcap, size_t end, struct pcap_interface *interface) {
    size_t at = INTERFACE_BYTES;
    struct block_option option;
    int result;

    while ((result = next_option(pcap, &at, end, &option)) > 0) {
        if (option.code == OPTION_RESOLUTION && option.bytes == 1)
            interface->resolution = *option.value;
        if (option.code == OPTION_OFFSET && option.bytes == 8)
            interface->offset_s = (int64_t)u64_at(pcap, option.value);
    }
    return result == 0;
}

/// Finds the first comment that begins with PCAP_COMMENT_BEGIN in a packet's options. Returns false
/// only if an option is damaged.
/// - at, end: offsets at which the packet's options begin and end.
/// - frame: out: only comment and comment_bytes are set: to the text after PCAP_COMMENT_BEGIN;
///   untouched if no comment begins with it.
static bool find_comment(const struct pcap *pcap, size_t at, size_t end, struct frame *frame) {
    const size_t begin = strlen(PCAP_COMMENT_BEGIN);
    struct block_option option;
    int result;

    while ((result = next_option(pcap, &at, end, &option)) > 0) {
        if (!frame->comment && option.code == OPTION_COMMENT && option.bytes >= begin &&
            memcmp(option.value, PCAP_COMMENT_BEGIN, begin) == 0) {
            frame->comment = option.value + begin;
            frame->comment_bytes = option.bytes - begin;
        }
    }
    return result == 0;
}

static int parse_interface(struct pcap *pcap, uint64_t at, size_t bytes, struct failure *failure) {
    struct pcap_interface interface = {.resolution = RESOLUTION_US};
    uint8_t power;

    if (bytes < INTERFACE_BYTES)
        return fail_at(pcap, at, "an interface that is too short", failure);
    interface.link = u16_at(pcap, pcap->block);
    interface.snap_bytes = u32_at(pcap, pcap->block + 4);
    if (!parse_options(pcap, bytes, &interface))
        return fail_at(pcap, at, "an interface with a damaged option", failure);
    power = interface.resolution & (uint8_t)~RESOLUTION_BINARY;
    if (power > (interface.resolution & RESOLUTION_BINARY ? RESOLUTION_BINARY_MAX : RESOLUTION_MAX))
        return fail_at(pcap, at, "an interface with an impossible time resolution", failure);
    return add_interface(pcap, &interface, failure);
}

/// Parses the packet of an Enhanced Packet Block. Returns 1 or -EINVAL.
static int parse_packet(const struct pcap *pcap, uint64_t at, size_t bytes, struct frame *frame,
                        struct failure *failure) {
    const uint8_t *body = pcap->block;
    const struct pcap_interface *interface;
    uint32_t index;

    if (bytes < PACKET_BYTES)
        return fail_at(pcap, at, "a packet that is too short", failure);
    index = u32_at(pcap, body);
    if (index >= pcap->interface_count)
        return fail_at(pcap, at, "a packet of an interface that is not described", failure);
    interface = &pcap->interfaces[index];
    *frame = (struct frame){
        .link = interface->link,
        .time_ns =
            time_of(interface, (uint64_t)u32_at(pcap, body + 4) << 32 | u32_at(pcap, body + 8)),
        .bytes = body + PACKET_BYTES,
        .captured = u32_at(pcap, body + 12),
        .original = u32_at(pcap, body + 16),
    };
    if (frame->captured > bytes - PACKET_BYTES)
        return fail_at(pcap, at, "a packet that is longer than its block", failure);
    if (!find_comment(pcap, PACKET_BYTES + padded(frame->captured), bytes, frame))
        return fail_at(pcap, at, "a packet with a damaged option", failure);
    return 1;
}

/// Parses the packet of a Simple Packet Block. It has no time: the time of the frame before it is
/// used. Returns 1 or -EINVAL.
static int parse_simple(const struct pcap *pcap, uint64_t at, size_t bytes, struct frame *frame,
                        struct failure *failure) {
    const struct pcap_interface *interface = pcap->interfaces;

    if (bytes < SIMPLE_BYTES)
        return fail_at(pcap, at, "a packet that is too short", failure);
    if (pcap->interface_count == 0)
        return fail_at(pcap, at, "a packet of an interface that is not described", failure);
    *frame = (struct frame){
        .link = interface->link,
        .time_ns = pcap->last_ns,
        .bytes = pcap->block + SIMPLE_BYTES,
        .original = u32_at(pcap, pcap->block),
    };
    frame->captured = frame->original;
    if (interface->snap_bytes > 0 && frame->captured > interface->snap_bytes)
        frame->captured = interface->snap_bytes;
    if (frame->captured > bytes - SIMPLE_BYTES)
        return fail_at(pcap, at, "a packet that is longer than its block", failure);
    return 1;
}

/// Reads the next block of a pcapng file. Returns 1 if the block has a packet, 2 if it has none, 0
/// at the end of the file, or -errno.
static int next_block(struct pcap *pcap, struct frame *frame, struct failure *failure) {
    const uint64_t at = pcap->at;
    uint8_t head[BLOCK_HEAD_BYTES];
    uint32_t type, length;
    size_t bytes;
    int result = read_bytes(pcap, head, sizeof type, true, failure);

    if (result <= 0)
        return result;
    type = u32_at(pcap, head);
    if (type == MAGIC_NG) {
        result = open_section(pcap, failure);
        return result < 0 ? result : 2;
    }
    result = read_bytes(pcap, head + 4, sizeof length, false, failure);
    if (result < 0)
        return result;
    length = u32_at(pcap, head + 4);
    if (length % 4 != 0 || length < BLOCK_LEAST)
        return fail_at(pcap, at, "a block of an impossible length", failure);
    result = read_block(pcap, length - BLOCK_HEAD_BYTES, failure);
    if (result < 0)
        return result;
    bytes = length - BLOCK_LEAST;
    if (u32_at(pcap, pcap->block + bytes) != length)
        return fail_at(pcap, at, "a block whose two lengths differ", failure);
    if (type == BLOCK_PACKET)
        return parse_packet(pcap, at, bytes, frame, failure);
    if (type == BLOCK_SIMPLE)
        return parse_simple(pcap, at, bytes, frame, failure);
    result = type == BLOCK_INTERFACE ? parse_interface(pcap, at, bytes, failure) : 1;
    return result < 0 ? result : 2;
}

int pcap_next(struct pcap *pcap, struct pcap_packet *packet, struct failure *failure) {
    for (;;) {
        struct frame frame = {0};
        const int result =
            pcap->is_ng ? next_block(pcap, &frame, failure) : next_record(pcap, &frame, failure);

        if (result <= 0)
            return result;
        if (result == 2)
            continue;
        pcap->frames++;
        pcap->last_ns = frame.time_ns;
        *packet = (struct pcap_packet){.number = pcap->frames,
                                       .time_ns = frame.time_ns,
                                       .comment = frame.comment,
                                       .comment_bytes = frame.comment_bytes};
        if (pcap_link_find_ip(frame.link, frame.bytes, frame.captured, frame.original, packet))
            return 1;
        pcap->skipped++;
    }
}
