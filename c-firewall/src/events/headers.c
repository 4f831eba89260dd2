// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/headers.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/object.h"
#include "policy/print.h"

enum {
    FLOW_ID_BITS = 51, // few enough that a double holds the number exactly
    TCP_URG = 0x20,
};

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint32_t be16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static uint32_t be32(const uint8_t *bytes) { return be16(bytes) << 16 | be16(bytes + 2); }

/// Goes on with a hash (FNV-1a).
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
    // The lower end first, so that both directions are one flow.
    if (order <= 0) {
        flow = hash_end(flow, source, bytes, packet->source_port);
        flow = hash_end(flow, destination, bytes, packet->destination_port);
    } else {
        flow = hash_end(flow, destination, bytes, packet->destination_port);
        flow = hash_end(flow, source, bytes, packet->source_port);
    }
    return (flow ^ flow >> FLOW_ID_BITS) & ((UINT64_C(1) << FLOW_ID_BITS) - 1);
}

/// Protocols as Suricata names them.
static void put_protocol_name(json_t *object, uint8_t protocol) {
    static const char *const names[UINT8_MAX + 1] = {
        [IPPROTO_ICMP] = "ICMP", [IPPROTO_IGMP] = "IGMP",        [IPPROTO_TCP] = "TCP",
        [IPPROTO_UDP] = "UDP",   [IPPROTO_GRE] = "GRE",          [IPPROTO_ESP] = "ESP",
        [IPPROTO_AH] = "AH",     [IPPROTO_ICMPV6] = "IPv6-ICMP", [IPPROTO_SCTP] = "SCTP",
    };
    char number[4];

    snprintf(number, sizeof number, "%03u", protocol);
    object_put_string(object, "proto", names[protocol] ? names[protocol] : number);
}

static void put_address(json_t *object, const char *key, const struct packet *packet,
                        const uint8_t *address) {
    policy_value value = 0;

    for (uint32_t i = 0; i < packet_address_bytes(packet); i++)
        value = value << 8 | address[i];
    object_put_text(object, key,
                    print_value(packet->version == 4 ? POLICY_IPV4_ADDR : POLICY_IPV6_ADDR, value));
}

void events_headers_put_tuple(json_t *object, const struct packet *packet) {
    const uint8_t *addresses = packet_addresses(packet);

    if (!addresses)
        return;
    put_address(object, "src_ip", packet, addresses);
    if (packet->has_ports)
        object_put_number(object, "src_port", packet->source_port);
    put_address(object, "dest_ip", packet, addresses + packet_address_bytes(packet));
    if (packet->has_ports)
        object_put_number(object, "dest_port", packet->destination_port);
    if (packet->end > 0)
        put_protocol_name(object, packet->protocol);
    if (packet->has_icmp) {
        object_put_number(object, "icmp_type", packet->icmp_type);
        object_put_number(object, "icmp_code", packet->icmp_code);
    }
}

static void put_ip(json_t *object, const struct packet *packet) {
    const uint8_t *ip = packet->bytes;

    if (!packet_addresses(packet))
        return;
    if (packet->version == 4) {
        object_put_number(object, "tos", ip[1]);
        object_put_number(object, "ttl", ip[8]);
        object_put_number(object, "ipid", be16(ip + 4));
    } else {
        object_put_number(object, "tc", be16(ip) >> 4 & 0xff);
        object_put_number(object, "hoplimit", ip[7]);
        object_put_number(object, "flowlbl", be32(ip) & 0xfffff);
    }
}

static void put_tcp(json_t *object, const uint8_t *tcp) {
    static const struct {
        const char *name;
        uint8_t bit;
    } flags[] = {{"syn", TH_SYN}, {"ack", TH_ACK},  {"psh", TH_PUSH},
                 {"rst", TH_RST}, {"urg", TCP_URG}, {"fin", TH_FIN}};

    object_put_number(object, "tcpseq", be32(tcp + 4));
    object_put_number(object, "tcpack", be32(tcp + 8));
    object_put_number(object, "tcpwin", be16(tcp + 14));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        object_put_bool(object, flags[i].name, tcp[13] & flags[i].bit);
    object_put_number(object, "tcpres", tcp[12] & 0x0f);
    object_put_number(object, "tcpurgp", be16(tcp + 18));
}

static bool is_echo(const struct packet *packet) {
    if (!packet->has_icmp)
        return false;
    if (packet->version == 4)
        return packet->icmp_type == ICMP_ECHO || packet->icmp_type == ICMP_ECHOREPLY;
    return packet->icmp_type == ICMP6_ECHO_REQUEST || packet->icmp_type == ICMP6_ECHO_REPLY;
}

static void put_layer4(json_t *object, const struct packet *packet) {
    const uint8_t *l4;
    uint32_t left;

    if (packet->l4_offset == 0 || packet->l4_offset >= packet->captured)
        return;
    l4 = packet->bytes + packet->l4_offset;
    left = packet->captured - packet->l4_offset;
    if (packet->protocol == IPPROTO_TCP && left >= PACKET_TCP_HEADER_BYTES)
        put_tcp(object, l4);
    else if (packet->protocol == IPPROTO_UDP && left >= PACKET_UDP_HEADER_BYTES)
        object_put_number(object, "udplen", be16(l4 + 4));
    else if (is_echo(packet) && left >= PACKET_ICMP_HEADER_BYTES) {
        object_put_number(object, "icmp_id", be16(l4 + 4));
        object_put_number(object, "icmp_seq", be16(l4 + 6));
    }
}

void events_headers_put_layers(json_t *object, const struct packet *packet) {
    object_put_number(object, "len", packet->original);
    put_ip(object, packet);
    put_layer4(object, packet);
}
