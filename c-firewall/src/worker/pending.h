// SPDX-License-Identifier: GPL-2.0-or-later
// Checksums that the kernel has not written yet. A sender with CAP_NET_RAW and a virtual machine
// choose where the kernel writes the checksum (PACKET_VNET_HDR), so the name in a packet may change
// after it was read.
#ifndef WORKER_PENDING_H
#define WORKER_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"
#include "packet/packet.h"
#include "packet/verdict.h"
#include "queue/types.h"

/// Returns the state of a packet's checksum, as the kernel reports it in NFQA_SKB_INFO: not written
/// yet, not checked, or correct.
enum connection_checksum pending_state(uint32_t skb_info);

/// Stores the packet's correct checksum and its place in *restated, if the kernel must get the
/// packet back with them: names may depend on its bytes, and the kernel has not written its
/// checksum yet. Returns false otherwise, with *restated not valid. GSO packets are left out: they
/// are longer than a segment, and the kernel refuses a different checksum offset in them (net: drop
/// bad gso csum_start and offset in virtio_net_hdr, Linux 6.11). Packets that were not copied whole
/// are left out, too: connection_follow makes those of other hosts unreadable.
bool pending_restated(const struct connections *connections, const struct followed *followed,
                      const struct queue_packet *packet, const struct packet *parsed,
                      struct verdict_restated *restated);

#endif
