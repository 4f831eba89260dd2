// SPDX-License-Identifier: GPL-2.0-or-later
// Replies of the policy's `reject`. NFQUEUE has no verdict for a reply. Therefore replies are sent
// by raw sockets, and the packet is dropped. The replies, and the cases without a reply, are those
// of the kernel's nf_reject_ipv4.c, nf_reject_ipv6.c and icmp.c: a RST (RFC 9293 section 3.10.7.1)
// or an ICMP error (RFC 792, RFC 4443). A reply's source is the packet's destination address.
#ifndef WORKER_REJECT_H
#define WORKER_REJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/packet.h"
#include "policy/policy.h"

enum {
    // Maximum length of an ICMP error with its IP header in bytes (RFC 792, RFC 1812).
    REJECT_IPV4_MAX = 576,
    // Maximum length of an ICMPv6 error with its IP header in bytes (RFC 4443 section 2.4).
    REJECT_IPV6_MAX = 1280,
};

/// Result of sending a reply.
enum reject_result {
    REJECT_SENT,
    // No reply must be sent, for example because the packet is a RST, an ICMP error or a later
    // fragment, its header is cut off, or one of its addresses is not unicast.
    REJECT_NOT_DUE,
    REJECT_FAILED, // the kernel refused to send the reply
    REJECT_RESULT_COUNT
};

/// Raw sockets for replies.
struct reject {
    int raw4;
    int raw6; // raw socket for IPv6; -1 if the system has no IPv6
};

/// Opens the raw sockets for replies.
/// - Returns 0, or -errno with failure filled in (LOG_EXIT_CAPABILITY if CAP_NET_RAW is missing)
///   and all sockets -1.
int reject_open(struct reject *reject, struct failure *failure);

/// Closes the sockets that are not -1.
void reject_close(struct reject *reject);

/// Sends the reply to a packet's source, without blocking.
/// - packet: result of packet_parse, which must not have found it malformed.
/// - interface: index of the interface at which the packet arrived or by which it leaves; needed
///   for a link-local address.
enum reject_result reject_reply(const struct reject *reject, const struct policy_reject *how,
                                const struct packet *packet, uint32_t interface);

/// Sends a RST to a packet's destination, without blocking. It appears to come from the packet's
/// source.
/// - sequence: sequence number that the destination expects next.
/// - interface: index of the interface by which the packet leaves or at which it arrived.
enum reject_result reject_reset_receiver(const struct reject *reject, const struct packet *packet,
                                         uint32_t sequence, uint32_t interface);

/// Sends a RST to the source of a RST packet, without blocking. It appears to come from that
/// packet's destination.
/// - sequence: sequence number that the source expects next.
/// - interface: index of the interface through which the source is reached.
enum reject_result reject_reset_sender(const struct reject *reject, const struct packet *packet,
                                       uint32_t sequence, uint32_t interface);

/// Returns the code of the ICMP or ICMPv6 error that answers a packet of an IP version; 0 for a
/// RST.
uint8_t reject_code(const struct policy_reject *how, uint8_t version);

/// Builds the reply to a packet, from the reply's IP header on, without side effects.
/// - Returns the reply's length in bytes; 0 = no reply must be sent.
size_t reject_build(const struct policy_reject *how, const struct packet *packet,
                    uint8_t reply[static REJECT_IPV6_MAX]);

/// Builds a RST to a packet's destination that appears to come from the packet's source, without
/// side effects.
/// - sequence: sequence number that the destination expects next.
/// - Returns the RST's length in bytes; 0 = no RST must be sent.
size_t reject_build_onward(const struct packet *packet, uint32_t sequence,
                           uint8_t reply[static REJECT_IPV6_MAX]);

/// Builds a RST to the source of a RST packet that appears to come from that packet's destination,
/// without side effects.
/// - sequence: sequence number that the source expects next.
/// - Returns the RST's length in bytes; 0 = no RST must be sent.
size_t reject_build_back(const struct packet *packet, uint32_t sequence,
                         uint8_t reply[static REJECT_IPV6_MAX]);

#endif
