// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/headers.h"

#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "policy/print.h"

enum {
    FLOW_ID_BITS = 51, // number of bits of a flow ID, so that a double represents it exactly
    TCP_URG = 0x20,
};

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint32_t be16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static uint32_t be32(const uint8_t *bytes) { return be16(bytes) << 16 | be16(bytes + 2); }

/// Adds bytes to a hash (FNV-1a).
static uint64_t hash(uint64_t so_far, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        so_far = (so_far ^ bytes[i]) * FNV_PRIME;
    return so_far;
}

static uint64_t hash_end(uint64_t so_far, const uint8_t *address, size_t bytes, uint16_t port) {
    const uint8_t end[] = {(uint8_t)(port >> 8), (uint8_t)port};

    return hash(hash(so_far, address, bytes), end, sizeof end);
}

uint64_t events_headers_flow_id(const struct packet *packet) {
    const uint8_t *source = packet_addresses(packet), *destination;
    const size_t bytes = packet_address_bytes(packet);
    uint64_t flow;
    int order;

    if (!source)
        return 0;
    destination = source + bytes;
    order = memcmp(source, destination, bytes);
    if (order == 0)
        order = packet->source_port - packet->destination_port;
    flow = hash(FNV_OFFSET, &packet->protocol, 1);
    // The lower end comes first, so that both directions have the same ID.
    if (order <= 0) {
        flow = hash_end(flow, source, bytes, packet->source_port);
        flow = hash_end(flow, destination, bytes, packet->destination_port);
    } else {
        flow = hash_end(flow, destination, bytes, packet->destination_port);
        flow = hash_end(flow, source, bytes, packet->source_port);
    }
    return (flow ^ flow >> FLOW_ID_BITS) & ((UINT64_C(1) << FLOW_ID_BITS) - 1);
}

/// Returns Suricata's name of a protocol.
static struct event_string protocol_name(uint8_t protocol) {
    static const char *const names[UINT8_MAX + 1] = {
        [IPPROTO_ICMP] = "ICMP", [IPPROTO_IGMP] = "IGMP",        [IPPROTO_TCP] = "TCP",
        [IPPROTO_UDP] = "UDP",   [IPPROTO_GRE] = "GRE",          [IPPROTO_ESP] = "ESP",
        [IPPROTO_AH] = "AH",     [IPPROTO_ICMPV6] = "IPv6-ICMP", [IPPROTO_SCTP] = "SCTP",
    };
    char number[4];

    if (names[protocol])
        return (struct event_string){.text = names[protocol]};
    snprintf(number, sizeof number, "%03u", protocol);
    return (struct event_string){.made = strdup(number)};
}

static struct event_string address(const struct packet *packet, const uint8_t *bytes) {
    const enum policy_type type = packet->version == 4 ? POLICY_IPV4_ADDR : POLICY_IPV6_ADDR;
    policy_value value = 0;

    for (uint32_t i = 0; i < packet_address_bytes(packet); i++)
        value = value << 8 | bytes[i];
    return (struct event_string){.made = print_value(type, value)};
}

void events_headers_fill_tuple(struct event_line *line, const struct packet *packet) {
    const uint8_t *addresses = packet_addresses(packet);

    if (!addresses)
        return;
    line->src_ip = address(packet, addresses);
    line->dest_ip = address(packet, addresses + packet_address_bytes(packet));
    if (packet->has_ports) {
        line->src_port = event_number(packet->source_port);
        line->dest_port = event_number(packet->destination_port);
    }
    if (packet->end > 0)
        line->proto = protocol_name(packet->protocol);
    if (packet->has_icmp) {
        line->icmp_type = event_number(packet->icmp_type);
        line->icmp_code = event_number(packet->icmp_code);
    }
}

static void fill_ip(struct event_headers *headers, const struct packet *packet) {
    const uint8_t *ip = packet->bytes;

    if (!packet_addresses(packet))
        return;
    if (packet->version == 4) {
        headers->tos = event_number(ip[1]);
        headers->ttl = event_number(ip[8]);
        headers->ipid = event_number(be16(ip + 4));
    } else {
        headers->tc = event_number(be16(ip) >> 4 & 0xff);
        headers->hoplimit = event_number(ip[7]);
        headers->flowlbl = event_number(be32(ip) & 0xfffff);
    }
}

static void fill_tcp(struct event_headers *headers, const uint8_t *tcp) {
    const uint8_t flags = tcp[13];

    headers->tcpseq = event_number(be32(tcp + 4));
    headers->tcpack = event_number(be32(tcp + 8));
    headers->tcpwin = event_number(be16(tcp + 14));
    headers->syn = event_number(flags & TH_SYN);
    headers->ack = event_number(flags & TH_ACK);
    headers->psh = event_number(flags & TH_PUSH);
    headers->rst = event_number(flags & TH_RST);
    headers->urg = event_number(flags & TCP_URG);
    headers->fin = event_number(flags & TH_FIN);
    headers->tcpres = event_number(tcp[12] & 0x0f);
    headers->tcpurgp = event_number(be16(tcp + 18));
}

static bool is_echo(const struct packet *packet) {
    if (!packet->has_icmp)
        return false;
    if (packet->version == 4)
        return packet->icmp_type == ICMP_ECHO || packet->icmp_type == ICMP_ECHOREPLY;
    return packet->icmp_type == ICMP6_ECHO_REQUEST || packet->icmp_type == ICMP6_ECHO_REPLY;
}

static void fill_layer4(struct event_headers *headers, const struct packet *packet) {
    const uint8_t *l4;
    uint32_t left;

    if (packet->l4_offset == 0 || packet->l4_offset >= packet->captured)
        return;
    l4 = packet->bytes + packet->l4_offset;
    left = packet->captured - packet->l4_offset;
    if (packet->protocol == IPPROTO_TCP && left >= PACKET_TCP_HEADER_BYTES)
        fill_tcp(headers, l4);
    else if (packet->protocol == IPPROTO_UDP && left >= PACKET_UDP_HEADER_BYTES)
        headers->udplen = event_number(be16(l4 + 4));
    else if (is_echo(packet) && left >= PACKET_ICMP_HEADER_BYTES) {
        headers->icmp_id = event_number(be16(l4 + 4));
        headers->icmp_seq = event_number(be16(l4 + 6));
    }
}

void events_headers_fill_layers(struct event_headers *headers, const struct packet *packet) {
    headers->len = event_number(packet->original);
    fill_ip(headers, packet);
    fill_layer4(headers, packet);
}
