// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
#include "worker/reject.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/named.h"

enum {
    TTL = 64, // time to live of a reply (IPDEFTTL)
    // Flag "don't fragment" in the 16 bits of flags and fragment offset of the IPv4 header.
    IPV4_DF = 0x4000,
    // Bits of the packet's type of service that are copied to its ICMP error (RT_TOS).
    IPV4_TOS_KEPT = 0x1e,
    // Precedence of an ICMP error, IPTOS_PREC_INTERNETCONTROL (RFC 1812 section 4.3.2.5).
    IPV4_TOS_CONTROL = 0xc0,
    // Flag MSG_PROBE of sendto (include/linux/socket.h), which libc does not define. With it and
    // MSG_CONFIRM, a call without data sends nothing.
    PROBE_ONLY = 0x10,
    TCP_FIN = 0x01,
    TCP_SYN = 0x02,
    TCP_RST = 0x04,
    TCP_ACK = 0x10,
    RESET4_BYTES = PACKET_IPV4_HEADER_BYTES + PACKET_TCP_HEADER_BYTES, // length of an IPv4 RST
};

/// Codes for POLICY_REJECT_ICMPX in ICMP, and in ICMPv6 (icmpx6_codes), indexed by POLICY_ICMPX_*
/// (nft_reject.c).
static const uint8_t icmpx_codes[] = {
    [POLICY_ICMPX_NO_ROUTE] = ICMP_UNREACH_NET,
    [POLICY_ICMPX_PORT_UNREACHABLE] = ICMP_UNREACH_PORT,
    [POLICY_ICMPX_HOST_UNREACHABLE] = ICMP_UNREACH_HOST,
    [POLICY_ICMPX_ADMIN_PROHIBITED] = ICMP_UNREACH_FILTER_PROHIB,
};
static const uint8_t icmpx6_codes[] = {
    [POLICY_ICMPX_NO_ROUTE] = ICMP6_DST_UNREACH_NOROUTE,
    [POLICY_ICMPX_PORT_UNREACHABLE] = ICMP6_DST_UNREACH_NOPORT,
    [POLICY_ICMPX_HOST_UNREACHABLE] = ICMP6_DST_UNREACH_ADDR,
    [POLICY_ICMPX_ADMIN_PROHIBITED] = ICMP6_DST_UNREACH_ADMIN,
};

static uint32_t be32(const uint8_t *bytes) {
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

/// Adds bytes to a sum of 16-bit big-endian words (RFC 1071), and returns the new sum. The bytes
/// must begin at an even offset of the summed data.
static uint32_t sum_of(const uint8_t *bytes, size_t count, uint32_t sum) {
    for (size_t i = 0; i + 1 < count; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    return count % 2 == 0 ? sum : sum + ((uint32_t)bytes[count - 1] << 8);
}

static uint32_t checksum_of(uint32_t sum) {
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/// Returns the sum of the 16-bit words of a pseudo header (two adjacent addresses, protocol and
/// length), for a reply's checksum.
static uint32_t pseudo_sum(const uint8_t *addresses, size_t bytes, uint8_t protocol,
                           size_t length) {
    return sum_of(addresses, bytes, protocol + (uint32_t)length);
}

/// Returns true if an address may be the source or destination of a reply: it is neither
/// unspecified, nor multicast, nor 255.255.255.255.
static bool is_unicast(uint8_t version, const uint8_t *address) {
    static const uint8_t unspecified[16];

    if (version == 4)
        return be32(address) != INADDR_ANY && be32(address) != INADDR_BROADCAST &&
               !IN_MULTICAST(be32(address));
    return address[0] != 0xff && memcmp(address, unspecified, sizeof unspecified) != 0;
}

/// Writes the IP header of a reply to a packet. Returns the header's length in bytes.
static size_t put_ip(const struct packet *packet, uint8_t protocol, uint8_t tos, uint16_t flags,
                     size_t payload_bytes, uint8_t *at) {
    const size_t bytes = packet_address_bytes(packet);
    const size_t header =
        packet->version == 4 ? PACKET_IPV4_HEADER_BYTES : PACKET_IPV6_HEADER_BYTES;

    memset(at, 0, header);
    if (packet->version == 4) {
        at[0] = 0x45;
        at[1] = tos;
        put16(at + 2, (uint32_t)(header + payload_bytes));
        put16(at + 6, flags);
        at[8] = TTL;
        at[9] = protocol;
    } else {
        at[0] = 0x60;
        put16(at + 4, (uint32_t)payload_bytes);
        at[6] = protocol;
        at[7] = TTL;
    }
    memcpy(at + header - 2 * bytes, packet_addresses(packet) + bytes, bytes);
    memcpy(at + header - bytes, packet_addresses(packet), bytes);
    if (packet->version == 4)
        put16(at + 10, checksum_of(sum_of(at, header, 0)));
    return header;
}

/// Returns the acknowledgement number of a RST that replies to a segment without ACK: the sequence
/// number after the segment's SYN, data and FIN (RFC 9293 section 3.10.7.1).
static uint32_t acknowledged(const struct packet *packet, const uint8_t *tcp) {
    const uint32_t header = (tcp[12] >> 4) * 4U;
    const uint32_t flags = ((tcp[13] & TCP_SYN) != 0) + ((tcp[13] & TCP_FIN) != 0);

    return be32(tcp + 4) + flags + (packet->end - packet->l4_offset - header);
}

static size_t build_reset(const struct packet *packet, uint8_t *reply) {
    const uint8_t *tcp = packet->bytes + packet->l4_offset;
    const size_t bytes = packet_address_bytes(packet);
    uint8_t *at;
    size_t header;

    if (packet->protocol != IPPROTO_TCP || packet->l4_offset == 0 ||
        packet->captured < packet->l4_offset + PACKET_TCP_HEADER_BYTES)
        return 0;
    header = put_ip(packet, IPPROTO_TCP, 0, IPV4_DF, PACKET_TCP_HEADER_BYTES, reply);
    at = reply + header;
    memset(at, 0, PACKET_TCP_HEADER_BYTES);
    memcpy(at, tcp + 2, 2);
    memcpy(at + 2, tcp, 2);
    at[12] = PACKET_TCP_HEADER_BYTES / 4 << 4;
    at[13] = TCP_RST;
    if (tcp[13] & TCP_ACK) {
        memcpy(at + 4, tcp + 8, 4);
    } else {
        put32(at + 8, acknowledged(packet, tcp));
        at[13] |= TCP_ACK;
    }
    put16(at + 16, checksum_of(sum_of(at, PACKET_TCP_HEADER_BYTES,
                                      pseudo_sum(at - 2 * bytes, 2 * bytes, IPPROTO_TCP,
                                                 PACKET_TCP_HEADER_BYTES))));
    return header + PACKET_TCP_HEADER_BYTES;
}

/// Returns true if a packet is or may be an ICMP error. An ICMP error gets no reply (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4).
static bool is_icmp_error(const struct packet *packet) {
    if (packet->version == 6)
        return packet->protocol == IPPROTO_ICMPV6 &&
               (!packet->has_icmp || packet->icmp_type < ICMP6_ECHO_REQUEST);
    if (packet->protocol != IPPROTO_ICMP)
        return false;
    return !packet->has_icmp ||
           (packet->icmp_type != ICMP_ECHOREPLY && packet->icmp_type != ICMP_ECHO &&
            (packet->icmp_type < ICMP_TIMESTAMP || packet->icmp_type > ICMP_ADDRESSREPLY));
}

static size_t build_unreachable(const struct packet *packet, uint8_t code, uint8_t *reply) {
    const bool is_ipv4 = packet->version == 4;
    const size_t bytes = packet_address_bytes(packet);
    const size_t most = is_ipv4
                            ? REJECT_IPV4_MAX - PACKET_IPV4_HEADER_BYTES - PACKET_ICMP_HEADER_BYTES
                            : REJECT_IPV6_MAX - PACKET_IPV6_HEADER_BYTES - PACKET_ICMP_HEADER_BYTES;
    const size_t quoted = packet->captured < most ? packet->captured : most;
    const size_t length = PACKET_ICMP_HEADER_BYTES + quoted;
    const uint8_t tos =
        is_ipv4 ? (uint8_t)((packet->bytes[1] & IPV4_TOS_KEPT) | IPV4_TOS_CONTROL) : 0;
    uint32_t sum = 0;
    size_t header;
    uint8_t *at;

    if (is_icmp_error(packet))
        return 0;
    header = put_ip(packet, is_ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, tos, 0, length, reply);
    at = reply + header;
    memset(at, 0, PACKET_ICMP_HEADER_BYTES);
    at[0] = is_ipv4 ? ICMP_DEST_UNREACH : ICMP6_DST_UNREACH;
    at[1] = code;
    memcpy(at + PACKET_ICMP_HEADER_BYTES, packet->bytes, quoted);
    if (!is_ipv4)
        sum = pseudo_sum(at - 2 * bytes, 2 * bytes, IPPROTO_ICMPV6, length);
    put16(at + 2, checksum_of(sum_of(at, length, sum)));
    return header + length;
}

uint8_t reject_code(const struct policy_reject *how, uint8_t version) {
    if (how->kind != POLICY_REJECT_ICMPX)
        return how->code;
    return version == 4 ? icmpx_codes[how->code] : icmpx6_codes[how->code];
}

/// Returns true if a packet may be answered: it is no later fragment, and both addresses are
/// unicast.
static bool has_ends(const struct packet *packet) {
    const uint8_t *addresses = packet_addresses(packet);

    return addresses && !packet->later_fragment && is_unicast(packet->version, addresses) &&
           is_unicast(packet->version, addresses + packet_address_bytes(packet));
}

/// Returns true if a packet is a RST, which gets no reply.
static bool is_reset(const struct packet *packet) {
    return packet->protocol == IPPROTO_TCP && packet->captured > packet->l4_offset + 13 &&
           (packet->bytes[packet->l4_offset + 13] & TCP_RST);
}

size_t reject_build(const struct policy_reject *how, const struct packet *packet,
                    uint8_t reply[static REJECT_IPV6_MAX]) {
    if (!has_ends(packet))
        return 0;
    if (how->kind == POLICY_REJECT_TCP_RESET)
        return is_reset(packet) ? 0 : build_reset(packet, reply);
    if ((how->kind == POLICY_REJECT_ICMP && packet->version != 4) ||
        (how->kind == POLICY_REJECT_ICMPV6 && packet->version != 6))
        return 0;
    return build_unreachable(packet, reject_code(how, packet->version), reply);
}

/// Swaps two adjacent byte ranges, each `bytes` long.
static void swap(uint8_t *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t first = at[i];

        at[i] = at[bytes + i];
        at[bytes + i] = first;
    }
}

/// Sets the sequence number of a RST, and removes its acknowledgement. The RST then depends only on
/// the packet's addresses and ports, and the sequence number (RFC 9293 section 3.10.7.4).
/// - onward: true if addresses and ports must be swapped, so that the RST goes to the packet's
///   destination.
static void renumber(uint8_t *reset, size_t length, uint32_t sequence, bool onward) {
    const size_t bytes = length == RESET4_BYTES ? 4 : 16;
    uint8_t *tcp = reset + length - PACKET_TCP_HEADER_BYTES;

    if (onward) {
        swap(tcp - 2 * bytes, bytes);
        swap(tcp, 2);
    }
    put32(tcp + 4, sequence);
    put32(tcp + 8, 0);
    tcp[13] = TCP_RST;
    put16(tcp + 16, 0);
    put16(tcp + 16, checksum_of(sum_of(tcp, PACKET_TCP_HEADER_BYTES,
                                       pseudo_sum(tcp - 2 * bytes, 2 * bytes, IPPROTO_TCP,
                                                  PACKET_TCP_HEADER_BYTES))));
}

size_t reject_build_onward(const struct packet *packet, uint32_t sequence,
                           uint8_t reply[static REJECT_IPV6_MAX]) {
    const size_t length = reject_build(&named_rst, packet, reply);

    if (length > 0)
        renumber(reply, length, sequence, true);
    return length;
}

size_t reject_build_back(const struct packet *packet, uint32_t sequence,
                         uint8_t reply[static REJECT_IPV6_MAX]) {
    const size_t length = has_ends(packet) ? build_reset(packet, reply) : 0;

    if (length > 0)
        renumber(reply, length, sequence, false);
    return length;
}

static int open_socket(int domain, int *fd, struct failure *failure) {
    const int opened = socket(domain, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    const int error = errno;

    *fd = opened;
    if (opened >= 0 || (domain == AF_INET6 && error == EAFNOSUPPORT))
        return 0;
    if (error == EPERM)
        failure_set(failure, LOG_EXIT_CAPABILITY,
                    "CAP_NET_RAW is missing, and the policy uses reject: run as root or with sudo, "
                    "or give the program the capability (setcap cap_net_admin,cap_net_raw+ep)");
    else
        failure_set_start(failure, "socket", error);
    return -error;
}

int reject_open(struct reject *reject, struct failure *failure) {
    int result;

    *reject = (struct reject){.raw4 = -1, .raw6 = -1};
    result = open_socket(AF_INET, &reject->raw4, failure);
    if (result == 0)
        result = open_socket(AF_INET6, &reject->raw6, failure);
    if (result < 0)
        reject_close(reject);
    return result;
}

void reject_close(struct reject *reject) {
    const int all[] = {reject->raw4, reject->raw6};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
    *reject = (struct reject){.raw4 = -1, .raw6 = -1};
}

/// Returns true if an IPv4 address is a broadcast address in the kernel's routes. A socket without
/// SO_BROADCAST may not send to such an address (EACCES). With MSG_PROBE and MSG_CONFIRM the kernel
/// checks this, but sends nothing. The raw socket is used, because a UDP socket would be bound to a
/// port on all addresses.
static bool is_broadcast(const struct reject *reject, const uint8_t *address) {
    struct sockaddr_in to = {.sin_family = AF_INET};

    memcpy(&to.sin_addr, address, sizeof to.sin_addr);
    return sendto(reject->raw4, NULL, 0, PROBE_ONLY | MSG_CONFIRM, (const struct sockaddr *)&to,
                  sizeof to) < 0 &&
           errno == EACCES;
}

static ssize_t send4(const struct reject *reject, const uint8_t *reply, size_t length) {
    struct sockaddr_in to = {.sin_family = AF_INET};

    memcpy(&to.sin_addr, reply + 16, sizeof to.sin_addr);
    return sendto(reject->raw4, reply, length, MSG_DONTWAIT, (const struct sockaddr *)&to,
                  sizeof to);
}

static ssize_t send6(const struct reject *reject, const uint8_t *reply, size_t length,
                     uint32_t interface) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6};

    memcpy(&to.sin6_addr, reply + 24, sizeof to.sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&to.sin6_addr))
        to.sin6_scope_id = interface;
    return sendto(reject->raw6, reply, length, MSG_DONTWAIT, (const struct sockaddr *)&to,
                  sizeof to);
}

/// Sends a reply to the destination address in the reply's IP header, the source or destination of
/// a packet. Sends nothing if the reply is empty, or if the packet's destination is a broadcast
/// address.
static enum reject_result send_built(const struct reject *reject, const struct packet *packet,
                                     const uint8_t *reply, size_t length, uint32_t interface) {
    ssize_t sent;

    if (length == 0 || (packet->version == 4 && is_broadcast(reject, packet_addresses(packet) + 4)))
        return REJECT_NOT_DUE;
    sent = packet->version == 4 ? send4(reject, reply, length)
                                : send6(reject, reply, length, interface);
    return sent < 0 ? REJECT_FAILED : REJECT_SENT;
}

enum reject_result reject_reply(const struct reject *reject, const struct policy_reject *how,
                                const struct packet *packet, uint32_t interface) {
    uint8_t reply[REJECT_IPV6_MAX];
    const size_t length = reject_build(how, packet, reply);

    return send_built(reject, packet, reply, length, interface);
}

enum reject_result reject_reset_receiver(const struct reject *reject, const struct packet *packet,
                                         uint32_t sequence, uint32_t interface) {
    uint8_t reset[REJECT_IPV6_MAX];
    const size_t length = reject_build_onward(packet, sequence, reset);

    return send_built(reject, packet, reset, length, interface);
}

enum reject_result reject_reset_sender(const struct reject *reject, const struct packet *packet,
                                       uint32_t sequence, uint32_t interface) {
    uint8_t reset[REJECT_IPV6_MAX];
    const size_t length = reject_build_back(packet, sequence, reset);

    return send_built(reject, packet, reset, length, interface);
}
