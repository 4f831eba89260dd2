// SPDX-License-Identifier: GPL-2.0-or-later
// Captures of packets: pcap (both byte orders, microseconds and nanoseconds) and pcapng, read as a
// stream. What is not IP is skipped and counted.
// Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng; link types:
// tcpdump.org/linktypes.html.
#ifndef PACKET_PCAP_H
#define PACKET_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "packet/pcap_link.h"

enum {
    PCAP_BLOCK_MAX = 16 << 20,  // bytes of a packet or block; a larger one is damage
    PCAP_INTERFACES_MAX = 4096, // of a pcapng section
};

#define PCAP_COMMENT_BEGIN "twinwall:" // of comments that tell what a packet was decided by

/// Interface description of a pcapng section. A pcap file has one.
struct pcap_interface {
    uint16_t link;
    uint32_t snap_bytes; // 0 = no limit
    uint8_t resolution;  // of its time stamps, as if_tsresol: 10^-n, or 2^-n with bit 7
    int64_t offset_s;    // added to its time stamps
};

/// An open capture.
struct pcap {
    const char *name; // for messages
    FILE *file;
    bool swapped; // its numbers are not in the host's order
    bool is_ng;
    uint64_t at; // bytes read
    uint8_t *block;
    size_t block_room;
    struct pcap_interface *interfaces;
    uint32_t interface_count;
    uint64_t last_ns; // of the last frame that had a time
    uint64_t frames;  // read so far, those that were skipped too
    uint64_t skipped; // frames that are not IP
};

/// Opens a capture and reads its head.
/// - path: "-" = stdin.
/// - Returns 0, or -EINVAL (-errno of reading, -ENOMEM) with failure filled in (code
///   LOG_EXIT_USAGE, "FILE: …") and nothing to close.
int pcap_open(struct pcap *pcap, const char *path, struct failure *failure);

/// Reads on to the next IP packet.
/// - Returns 1, or 0 at the end, or -EINVAL (-errno of reading, -ENOMEM) with failure filled in.
int pcap_next(struct pcap *pcap, struct pcap_packet *packet, struct failure *failure);

/// Closes and frees.
void pcap_close(struct pcap *pcap);

#endif
