// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/fields.h"

#include <assert.h>
#include <netinet/in.h>

#include "engine/types.h"
#include "policy/value.h"

enum {
    DNS_PORT = 53,     // port of DNS servers
    OPTION_NOP = 1,    // kind of the TCP option NOP: padding of one byte
    OPTION_MPTCP = 30, // kind of the TCP option Multipath TCP (RFC 8684)
    // Maximum number of bytes of a transport header that are read, without options.
    TRANSPORT_READ_BYTES = PACKET_TCP_FLAGS_OFFSET + 1,
};

static const uint64_t transport_fields = POLICY_FIELDS_OF_TRANSPORT | POLICY_FIELDS_OF_PROTOCOL;

static const uint64_t icmp_fields =
    FIELDS_BIT(POLICY_ICMP_TYPE_FIELD) | FIELDS_BIT(POLICY_ICMP_CODE_FIELD);

static const uint64_t icmpv6_fields =
    FIELDS_BIT(POLICY_ICMPV6_TYPE_FIELD) | FIELDS_BIT(POLICY_ICMPV6_CODE_FIELD);

/// Returns the bits of the ICMP fields that packets of this family never have.
static uint64_t other_icmp(uint8_t nfproto) {
    return nfproto == FIELDS_IPV4 ? icmpv6_fields : icmp_fields;
}

static const uint64_t dns_fields = FIELDS_BIT(POLICY_DNS_NAME_EXISTS) |
                                   FIELDS_BIT(POLICY_DNS_NAME) | FIELDS_BIT(POLICY_DNS_TYPE_FIELD);

static_assert(POLICY_FIELD_COUNT <= 64, "a bit for each field");

static uint32_t be16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static uint32_t be32(const uint8_t *bytes) { return be16(bytes) << 16 | be16(bytes + 2); }

static policy_value be128(const uint8_t *bytes) {
    policy_value value = 0;

    for (int i = 0; i < 16; i += 4)
        value = value << 32 | be32(bytes + i);
    return value;
}

static void set(struct fields *fields, enum policy_field field, uint32_t value) {
    fields->present |= FIELDS_BIT(field);
    fields->narrow[field] = value;
}

static void set_wide(struct fields *fields, enum policy_field field, policy_value value) {
    fields->present |= FIELDS_BIT(field);
    fields->wide[fields_wide_slot(field)] = value;
}

uint32_t fields_wide_slot(enum policy_field field) {
    switch (field) {
    case POLICY_IP6_SADDR:
        return 0;
    case POLICY_IP6_DADDR:
        return 1;
    case POLICY_META_IIFNAME:
        return 2;
    case POLICY_META_OIFNAME:
        return 3;
    case POLICY_HTTP_METHOD_FIELD:
        return 4;
    default:
        return FIELDS_WIDE_COUNT;
    }
}

static void read_metadata(struct fields *fields, uint8_t nfproto,
                          const struct decide_input *input) {
    set(fields, POLICY_META_NFPROTO, nfproto);
    set(fields, POLICY_META_MARK, input->mark);
    set(fields, POLICY_META_LENGTH, input->length);
    set(fields, POLICY_META_IIF, input->iif);
    set(fields, POLICY_META_OIF, input->oif);
    set_wide(fields, POLICY_META_IIFNAME, input->iifname);
    set_wide(fields, POLICY_META_OIFNAME, input->oifname);
    if (input->has_uid)
        set(fields, POLICY_META_SKUID, input->uid);
    if (input->has_gid)
        set(fields, POLICY_META_SKGID, input->gid);
    if (input->has_ct_state)
        set(fields, POLICY_CT_STATE_FIELD, input->ct_state);
    if (input->has_ct_mark)
        set(fields, POLICY_CT_MARK, input->ct_mark);
}

static void read_ipv4(struct fields *fields, const struct packet *packet) {
    const uint8_t *ip = packet->bytes;

    if (packet->version != 4 || packet->captured < PACKET_IPV4_HEADER_BYTES) {
        if (packet->captured < PACKET_IPV4_HEADER_BYTES && packet->headers_beyond)
            fields->beyond |= POLICY_FIELDS_OF_IPV4;
        return;
    }
    set(fields, POLICY_IP_DSCP, ip[1] >> 2);
    set(fields, POLICY_IP_LENGTH, be16(ip + 2));
    set(fields, POLICY_IP_FRAG_OFF, be16(ip + 6));
    set(fields, POLICY_IP_TTL, ip[8]);
    set(fields, POLICY_IP_PROTOCOL, ip[9]);
    set(fields, POLICY_IP_SADDR, be32(ip + 12));
    set(fields, POLICY_IP_DADDR, be32(ip + 16));
}

static void read_ipv6(struct fields *fields, const struct packet *packet) {
    const uint8_t *ip = packet->bytes;

    if (packet->version != 6 || packet->captured < PACKET_IPV6_HEADER_BYTES) {
        if (packet->captured < PACKET_IPV6_HEADER_BYTES && packet->headers_beyond)
            fields->beyond |= POLICY_FIELDS_OF_IPV6;
        return;
    }
    set(fields, POLICY_IP6_NEXTHDR, ip[6]);
    set(fields, POLICY_IP6_HOPLIMIT, ip[7]);
    set_wide(fields, POLICY_IP6_SADDR, be128(ip + 8));
    set_wide(fields, POLICY_IP6_DADDR, be128(ip + 24));
}

/// Sets a field to whether the packet has an extension header. The field is beyond the copy if the
/// header may follow the captured bytes.
static void read_extension(struct fields *fields, enum policy_field field,
                           const struct packet *packet, enum packet_extension extension) {
    const bool met = packet->extensions & extension;

    if (packet->headers_beyond && !met)
        fields->beyond |= FIELDS_BIT(field);
    else
        set(fields, field, met);
}

static void read_extensions(struct fields *fields, const struct packet *packet) {
    if (packet->version != 6 || packet->captured < PACKET_IPV6_HEADER_BYTES) {
        if (packet->captured < PACKET_IPV6_HEADER_BYTES && packet->headers_beyond)
            fields->beyond |= POLICY_FIELDS_OF_EXTENSION;
        return;
    }
    read_extension(fields, POLICY_EXTHDR_HBH, packet, PACKET_HBH);
    read_extension(fields, POLICY_EXTHDR_RT, packet, PACKET_RT);
    read_extension(fields, POLICY_EXTHDR_FRAG, packet, PACKET_FRAG);
    read_extension(fields, POLICY_EXTHDR_DST, packet, PACKET_DST);
    read_extension(fields, POLICY_EXTHDR_MH, packet, PACKET_MH);
}

/// Returns the number of captured bytes of the transport header and its payload, within the length
/// in the IP header.
static uint32_t transport_bytes(const struct packet *packet) {
    const uint32_t end = packet->end < packet->captured ? packet->end : packet->captured;

    if (packet->transport_offset == 0 || packet->transport_offset > end)
        return 0;
    return end - packet->transport_offset;
}

static void read_ports(struct fields *fields, enum policy_field source,
                       enum policy_field destination, const uint8_t *header, uint32_t bytes) {
    if (bytes >= 2)
        set(fields, source, be16(header));
    if (bytes >= 4)
        set(fields, destination, be16(header + 2));
}

static void read_icmp(struct fields *fields, enum policy_field type, enum policy_field code,
                      const uint8_t *header, uint32_t bytes) {
    if (bytes >= 1)
        set(fields, type, header[0]);
    if (bytes >= 2)
        set(fields, code, header[1]);
}

/// Returns the bits of a protocol's fields that lie within this many bytes of a transport header.
static uint64_t fields_within(uint8_t protocol, uint8_t nfproto, uint32_t bytes) {
    uint64_t ports = 0, icmp = 0, others = 0;

    if (bytes >= 1)
        icmp |= FIELDS_BIT(0);
    if (bytes >= 2) {
        ports |= FIELDS_BIT(0);
        icmp |= FIELDS_BIT(1);
    }
    if (bytes >= 4)
        ports |= FIELDS_BIT(1);
    if (protocol == IPPROTO_TCP)
        others = ports << POLICY_TCP_SPORT |
                 (bytes > PACKET_TCP_FLAGS_OFFSET ? FIELDS_BIT(POLICY_TCP_FLAGS) : 0);
    else if (protocol == IPPROTO_UDP)
        others = ports << POLICY_UDP_SPORT;
    else if (protocol == IPPROTO_ICMP)
        others = icmp << POLICY_ICMP_TYPE_FIELD | icmp << POLICY_ICMP_TYPE_ANY;
    else if (protocol == IPPROTO_ICMPV6)
        others = icmp << POLICY_ICMPV6_TYPE_FIELD | icmp << POLICY_ICMPV6_TYPE_ANY;
    return (ports << POLICY_TH_SPORT | others) & ~other_icmp(nfproto);
}

/// Returns the length of the transport header and its payload in the packet, captured or not.
static uint32_t transport_there(const struct packet *packet) {
    if (packet->transport_offset == 0 || packet->transport_offset > packet->end)
        return 0;
    return packet->end - packet->transport_offset;
}

/// Marks the fields of the transport header that lie beyond the captured bytes.
/// - bytes: number of captured bytes of the transport header and its payload.
static void note_beyond(struct fields *fields, uint8_t nfproto, const struct packet *packet,
                        uint32_t bytes) {
    const uint8_t protocol = packet->transport_protocol;
    const uint32_t there = transport_there(packet);

    fields->beyond |=
        fields_within(protocol, nfproto, there) & ~fields_within(protocol, nfproto, bytes);
}

/// Reads the transport header like nft_payload, field by field: a header that is too short has only
/// the fields that lie completely within it.
static void read_transport(struct fields *fields, uint8_t nfproto, const struct packet *packet) {
    const uint32_t bytes = transport_bytes(packet);
    const uint8_t *header = packet->bytes + packet->transport_offset;

    if (!packet->has_transport) {
        if (packet->headers_beyond)
            fields->beyond |= transport_fields & ~other_icmp(nfproto);
        return;
    }
    set(fields, POLICY_META_L4PROTO, packet->transport_protocol);
    if (bytes < TRANSPORT_READ_BYTES && packet->captured < packet->end)
        note_beyond(fields, nfproto, packet, bytes);
    if (bytes == 0)
        return;
    read_ports(fields, POLICY_TH_SPORT, POLICY_TH_DPORT, header, bytes);
    switch (packet->transport_protocol) {
    case IPPROTO_TCP:
        read_ports(fields, POLICY_TCP_SPORT, POLICY_TCP_DPORT, header, bytes);
        if (bytes > PACKET_TCP_FLAGS_OFFSET)
            set(fields, POLICY_TCP_FLAGS, header[PACKET_TCP_FLAGS_OFFSET]);
        break;
    case IPPROTO_UDP:
        read_ports(fields, POLICY_UDP_SPORT, POLICY_UDP_DPORT, header, bytes);
        break;
    case IPPROTO_ICMP:
        read_icmp(fields, POLICY_ICMP_TYPE_ANY, POLICY_ICMP_CODE_ANY, header, bytes);
        if (nfproto == FIELDS_IPV4)
            read_icmp(fields, POLICY_ICMP_TYPE_FIELD, POLICY_ICMP_CODE_FIELD, header, bytes);
        break;
    case IPPROTO_ICMPV6:
        read_icmp(fields, POLICY_ICMPV6_TYPE_ANY, POLICY_ICMPV6_CODE_ANY, header, bytes);
        if (nfproto == FIELDS_IPV6)
            read_icmp(fields, POLICY_ICMPV6_TYPE_FIELD, POLICY_ICMPV6_CODE_FIELD, header, bytes);
        break;
    default:
        break;
    }
}

/// Returns true if a TCP header has an option, by the search of nft_exthdr_tcp_eval: a kind of 0
/// does not end the options, and an option with the length 0 has one byte.
static bool has_option(const uint8_t *header, uint32_t length, uint8_t wanted) {
    uint32_t at = PACKET_TCP_HEADER_BYTES;

    while (length - at >= 2) {
        const uint8_t kind = header[at];
        const uint32_t bytes = kind <= OPTION_NOP || header[at + 1] == 0 ? 1 : header[at + 1];

        if (bytes > length - at)
            return false;
        if (kind == wanted)
            return true;
        at += bytes;
    }
    return false;
}

/// Sets a field to whether a packet has a TCP option. A packet that contains no complete TCP header
/// has no options. The field is beyond the copy if a part of the header was not captured.
/// - wanted: kind of the option.
static void read_option(struct fields *fields, enum policy_field field, const struct packet *packet,
                        uint8_t wanted) {
    const uint8_t *header = packet->bytes + packet->transport_offset;
    const uint32_t captured = transport_bytes(packet);
    const bool is_tcp = packet->has_transport && packet->transport_protocol == IPPROTO_TCP;
    const uint32_t there = is_tcp ? transport_there(packet) : 0;
    const uint32_t bytes = captured > PACKET_TCP_LENGTH_OFFSET
                               ? (header[PACKET_TCP_LENGTH_OFFSET] >> 4) * 4U
                               : PACKET_TCP_HEADER_BYTES;
    const bool is_whole = bytes >= PACKET_TCP_HEADER_BYTES && bytes <= there;

    if ((!packet->has_transport && packet->headers_beyond) || (is_whole && captured < bytes))
        fields->beyond |= FIELDS_BIT(field);
    else
        set(fields, field, is_whole && has_option(header, bytes, wanted));
}

/// Reads the fields of the client's hello in TLS or QUIC.
static void read_tls(struct fields *fields, const struct decide_input *input,
                     const struct names *names) {
    const bool is_tls = names->protocol == NAMES_TLS || names->protocol == NAMES_QUIC;
    const bool has_name = is_tls && names->host_length > 0;

    set(fields, POLICY_TLS_SNI_EXISTS, has_name);
    set(fields, POLICY_TLS_ECH, is_tls && names->ech);
    if (!is_tls)
        return;
    set(fields, POLICY_TLS_ALPN, input->alpn_bits);
    if (has_name)
        set(fields, POLICY_TLS_SNI, input->host_number);
    if (names->version != 0)
        set(fields, POLICY_TLS_VERSION_FIELD, names->version);
}

static void read_http(struct fields *fields, const struct decide_input *input,
                      const struct names *names) {
    const bool is_http = names->protocol == NAMES_HTTP;
    const bool has_name = is_http && names->host_length > 0;

    set(fields, POLICY_HTTP_HOST_EXISTS, has_name);
    if (has_name)
        set(fields, POLICY_HTTP_HOST, input->host_number);
    if (is_http && names->method_length > 0)
        set_wide(fields, POLICY_HTTP_METHOD_FIELD,
                 value_short(names->method, names->method_length));
}

static void read_dns(struct fields *fields, const struct decide_input *input,
                     const struct names *names) {
    const bool is_dns = names->protocol == NAMES_DNS;
    const bool has_name = is_dns && names->host_length > 0;

    set(fields, POLICY_DNS_NAME_EXISTS, has_name);
    if (has_name)
        set(fields, POLICY_DNS_NAME, input->host_number);
    if (is_dns)
        set(fields, POLICY_DNS_TYPE_FIELD, names->dns_type);
}

/// Returns true if a packet may belong to a DNS query, or to the TCP connection of a DNS query. An
/// answer over UDP does not count, because it proves nothing about the query.
static bool may_be_dns(const struct packet *packet) {
    return !packet->has_ports || packet->destination_port == DNS_PORT ||
           (packet->source_port == DNS_PORT && packet->protocol == IPPROTO_TCP);
}

/// Marks the names as unknown. If the packet can't belong to a DNS query, it is known to have no
/// DNS name.
static void note_unknown(struct fields *fields, const struct packet *packet) {
    fields->unknown = POLICY_FIELDS_OF_NAMES;
    if (may_be_dns(packet))
        return;
    fields->unknown &= ~dns_fields;
    set(fields, POLICY_DNS_NAME_EXISTS, 0);
}

/// Reads the names that the client has sent.
static void read_names(struct fields *fields, const struct decide_input *input) {
    const struct names *names = input->names;

    if (!names)
        return;
    switch (names->state) {
    case NAMES_NONE:
        break;
    case NAMES_UNDECIDED:
    case NAMES_UNREADABLE:
        note_unknown(fields, input->packet);
        break;
    case NAMES_KNOWN:
        read_tls(fields, input, names);
        read_http(fields, input, names);
        read_dns(fields, input, names);
        break;
    }
}

void fields_read(struct fields *fields, uint64_t wanted, uint8_t nfproto,
                 const struct decide_input *input) {
    fields->present = 0;
    fields->beyond = 0;
    fields->unknown = 0;
    read_metadata(fields, nfproto, input);
    if ((wanted & POLICY_FIELDS_OF_IPV4) && nfproto == FIELDS_IPV4)
        read_ipv4(fields, input->packet);
    if ((wanted & POLICY_FIELDS_OF_IPV6) && nfproto == FIELDS_IPV6)
        read_ipv6(fields, input->packet);
    if ((wanted & POLICY_FIELDS_OF_EXTENSION) && nfproto == FIELDS_IPV6)
        read_extensions(fields, input->packet);
    if (wanted & transport_fields)
        read_transport(fields, nfproto, input->packet);
    if (wanted & POLICY_FIELDS_OF_TCP_OPTION)
        read_option(fields, POLICY_TCP_OPTION_MPTCP, input->packet, OPTION_MPTCP);
    fields->beyond &= wanted;
    if (wanted & POLICY_FIELDS_OF_NAMES) {
        read_names(fields, input);
        fields->unknown &= wanted;
    }
}

uint64_t fields_behind_ip(void) {
    return transport_fields | POLICY_FIELDS_OF_EXTENSION | POLICY_FIELDS_OF_TCP_OPTION;
}

policy_value fields_value(const struct fields *fields, enum policy_field field) {
    const uint32_t slot = fields_wide_slot(field);

    return slot < FIELDS_WIDE_COUNT ? fields->wide[slot] : fields->narrow[field];
}

uint32_t fields_words(const struct fields *fields, const struct policy_key *key,
                      uint64_t words[FIELDS_KEY_WORDS_MAX]) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < key->count; i++) {
        const enum policy_field field = key->fields[i];
        const uint32_t slot = fields_wide_slot(field);

        if (!(fields->present & FIELDS_BIT(field)))
            return 0;
        if (slot < FIELDS_WIDE_COUNT)
            words[count++] = (uint64_t)(fields->wide[slot] >> 64);
        words[count++] =
            slot < FIELDS_WIDE_COUNT ? (uint64_t)fields->wide[slot] : fields->narrow[field];
    }
    return count;
}
