// SPDX-License-Identifier: GPL-2.0-or-later
// The replies of `reject`: NFQUEUE has no verdict for them, so they are sent by raw sockets and the
// packet is dropped. What is sent, and when nothing is, follows the kernel's nf_reject_ipv4.c,
// nf_reject_ipv6.c and icmp.c: a RST by RFC 9293 section 3.10.7.1, an ICMP error by RFC 792 and
// RFC 4443. The reply comes from the address that the packet was sent to.
#ifndef WORKER_REJECT_H
#define WORKER_REJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/packet.h"
#include "policy/policy.h"

enum {
    REJECT_IPV4_MAX = 576,  // bytes of an ICMP error with its IP header (RFC 792, RFC 1812)
    REJECT_IPV6_MAX = 1280, // of an ICMPv6 error (RFC 4443 section 2.4)
};

/// Result of sending a reply.
enum reject_result {
    REJECT_SENT,
    REJECT_NOT_DUE, // a RST, an ICMP error, a later fragment, no unicast address, a header cut off
    REJECT_FAILED,  // the kernel did not take it
    REJECT_RESULT_COUNT
};

/// The sockets of one thread.
struct reject {
    int raw4;
    int raw6; // -1 also if the system has no IPv6
};

/// Opens the sockets.
/// - Returns 0, or -errno with failure filled in (LOG_EXIT_CAPABILITY if CAP_NET_RAW is missing)
///   and all of them -1.
int reject_open(struct reject *reject, struct failure *failure);

/// Closes the sockets that are not -1.
void reject_close(struct reject *reject);

/// Answers a packet, without blocking.
/// - packet: as packet_parse filled it in; not malformed.
/// - interface: index of the one that it came in by or goes out by: where a link-local address is.
enum reject_result reject_reply(const struct reject *reject, const struct policy_reject *how,
                                const struct packet *packet, uint32_t interface);

/// Resets the end that a packet was sent to, as reject_reply answers the other one.
/// - sequence: what it expects next.
/// - interface: index of the one that the packet goes out by or came in by.
enum reject_result reject_reset_receiver(const struct reject *reject, const struct packet *packet,
                                         uint32_t sequence, uint32_t interface);

/// The code of the ICMP or ICMPv6 error that replies to a packet of this version; 0 for a RST.
uint8_t reject_code(const struct policy_reject *how, uint8_t version);

/// Writes the reply to a packet, from its IP header on. Pure.
/// - Returns how many bytes it has; 0 = none is due.
size_t reject_build(const struct policy_reject *how, const struct packet *packet,
                    uint8_t reply[static REJECT_IPV6_MAX]);

/// Writes a RST to the end that a packet was sent to, as if from the end that sent it. Pure.
/// - sequence: what the receiver expects next. It acknowledges nothing, and so takes nothing from
///   the packet but its ends (RFC 9293 section 3.10.7.4).
/// - Returns how many bytes it has; 0 = none is due.
size_t reject_build_onward(const struct packet *packet, uint32_t sequence,
                           uint8_t reply[static REJECT_IPV6_MAX]);

#endif
