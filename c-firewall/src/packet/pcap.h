// SPDX-License-Identifier: GPL-2.0-or-later
// Reader of capture files as a stream: pcap (both byte orders, microseconds and nanoseconds) and
// pcapng. Frames that are not IP are skipped and counted. Formats: draft-ietf-opsawg-pcap,
// draft-ietf-opsawg-pcapng; link types: tcpdump.org/linktypes.html.
#ifndef PACKET_PCAP_H
#define PACKET_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "packet/pcap_link.h"

enum {
    // Maximum size of a packet or block in bytes; with a larger size the capture counts as damaged.
    PCAP_BLOCK_MAX = 16 << 20,
    PCAP_INTERFACES_MAX = 4096, // maximum number of interfaces of a pcapng section
};

/// Start of a packet's comment in a capture that contains its metadata and, if recorded, its
/// verdict.
#define PCAP_COMMENT_BEGIN "twinwall:"

/// Interface of a pcapng section. A pcap file has one interface, without a description.
struct pcap_interface {
    uint16_t link;
    uint32_t snap_bytes; // maximum captured length; 0 = no limit
    // Resolution of time stamps, encoded as if_tsresol: 10^-n seconds, or 2^-n seconds if bit 7 is
    // set.
    uint8_t resolution;
    int64_t offset_s; // number of seconds to add to time stamps (if_tsoffset)
};

/// Open capture file.
struct pcap {
    const char *name; // name of the capture for messages
    FILE *file;
    bool swapped; // true if the capture's numbers are not in the host's byte order
    bool is_ng;
    uint64_t at; // number of the file's bytes read so far
    uint8_t *block;
    size_t block_room;
    struct pcap_interface *interfaces;
    uint32_t interface_count;
    uint64_t last_ns; // time of the last frame with a time, in nanoseconds since 1970
    uint64_t frames;  // number of frames read so far, including skipped frames
    uint64_t skipped; // number of frames that are not IP
};

/// Opens a capture and reads its header.
/// - path: "-" = stdin.
/// - Returns 0, or -EINVAL (-errno of reading, -ENOMEM) with failure filled in (code
///   LOG_EXIT_USAGE, a message that begins with the capture's name) and nothing to close.
int pcap_open(struct pcap *pcap, const char *path, struct failure *failure);

/// Reads frames up to the next IP packet.
/// - Returns 1, or 0 at the end of the file, or -EINVAL (-errno of reading, -ENOMEM) with failure
///   filled in.
int pcap_next(struct pcap *pcap, struct pcap_packet *packet, struct failure *failure);

/// Closes the capture and frees its memory.
void pcap_close(struct pcap *pcap);

#endif
