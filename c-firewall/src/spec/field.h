// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml: the types and fields of the language.
#ifndef SPEC_FIELD_H
#define SPEC_FIELD_H

#include <stdint.h>

/// Types of values in the policy language.
enum policy_type {
    POLICY_IPV4_ADDR,
    POLICY_IPV6_ADDR,
    POLICY_INET_PROTO,
    POLICY_INET_SERVICE,
    POLICY_TCP_FLAG,
    POLICY_ICMP_TYPE,
    POLICY_ICMP_CODE,
    POLICY_ICMPV6_TYPE,
    POLICY_ICMPV6_CODE,
    POLICY_DSCP,
    POLICY_MARK,
    POLICY_IFNAME,
    POLICY_IFACE_INDEX, // index of an interface; a policy has the interface's name, as for ifname;
                        // at run time the value is the index
    POLICY_UID,
    POLICY_GID,
    POLICY_CT_STATE, // connection state: invalid 1, established 2, related 4, new 8, untracked 64
                     // (NF_CT_STATE_BIT)
    POLICY_NF_PROTO, // family of a packet: NFPROTO_IPV4 2, NFPROTO_IPV6 10
    POLICY_INTEGER,
    POLICY_BOOLEAN,  // operand of a test whether a field exists: exists 1, missing 0
    POLICY_HOSTNAME, // host name: its number in the policy's Hostnames; at run time, its number in
                     // the compiled policy
    POLICY_ALPN, // ALPN protocol: in a policy, the 16 bytes of its name, like ifname; at run time,
                 // one of 32 bits
    POLICY_TLS_VERSION, // TLS version, as on the wire: 1.0 is 0x0301, 1.3 0x0304
    POLICY_HTTP_METHOD, // HTTP method: the 16 bytes of its name, like ifname
    POLICY_DNS_TYPE,
    POLICY_TYPE_COUNT
};

/// Types that sets and maps can have by name, as bits 1 << enum policy_type.
#define POLICY_NAMEABLE_TYPES                                                                      \
    (UINT32_C(1) << POLICY_IPV4_ADDR | UINT32_C(1) << POLICY_IPV6_ADDR |                           \
     UINT32_C(1) << POLICY_INET_PROTO | UINT32_C(1) << POLICY_INET_SERVICE |                       \
     UINT32_C(1) << POLICY_ICMP_TYPE | UINT32_C(1) << POLICY_ICMPV6_TYPE |                         \
     UINT32_C(1) << POLICY_MARK | UINT32_C(1) << POLICY_IFNAME |                                   \
     UINT32_C(1) << POLICY_IFACE_INDEX | UINT32_C(1) << POLICY_UID | UINT32_C(1) << POLICY_GID |   \
     UINT32_C(1) << POLICY_HOSTNAME | UINT32_C(1) << POLICY_TLS_VERSION |                          \
     UINT32_C(1) << POLICY_HTTP_METHOD | UINT32_C(1) << POLICY_DNS_TYPE)

/// Source of a field's value.
enum policy_part {
    POLICY_PART_IPV4,           // the IPv4 header
    POLICY_PART_IPV6,           // the IPv6 header
    POLICY_PART_EXTENSION,      // the IPv6 extension headers
    POLICY_PART_TRANSPORT,      // the bytes after the network header
    POLICY_PART_TCP_OPTION,     // the options of the TCP header
    POLICY_PART_PROTOCOL,       // the number of the protocol after the network header
    POLICY_PART_LENGTH,         // the packet's length, from the kernel
    POLICY_PART_META,           // metadata of every packet
    POLICY_PART_INTERFACE_NAME, // names of the interfaces, looked up by their indexes
    POLICY_PART_OWNER,          // owner of the sending socket, which the kernel adds on request
    POLICY_PART_CT_STATE, // state of the connection, which the kernel adds on request, or which is
                          // read from the packet mark
    POLICY_PART_CT_MARK,  // mark of the connection, which the kernel adds on request
    POLICY_PART_NAMES,    // names sent by the client, read from the packets of its connection
};

/// Fields that a policy can read.
enum policy_field {
    POLICY_IP_SADDR,
    POLICY_IP_DADDR,
    POLICY_IP_PROTOCOL,
    POLICY_IP_TTL,
    POLICY_IP_DSCP,
    POLICY_IP_LENGTH,
    POLICY_IP_FRAG_OFF,
    POLICY_IP6_SADDR,
    POLICY_IP6_DADDR,
    POLICY_IP6_NEXTHDR,
    POLICY_IP6_HOPLIMIT,
    POLICY_TCP_SPORT,
    POLICY_TCP_DPORT,
    POLICY_TCP_FLAGS,
    POLICY_TCP_OPTION_MPTCP,
    POLICY_UDP_SPORT,
    POLICY_UDP_DPORT,
    POLICY_TH_SPORT,
    POLICY_TH_DPORT,
    POLICY_ICMP_TYPE_FIELD,
    POLICY_ICMP_CODE_FIELD,
    POLICY_ICMPV6_TYPE_FIELD,
    POLICY_ICMPV6_CODE_FIELD,
    POLICY_ICMP_TYPE_ANY,
    POLICY_ICMP_CODE_ANY,
    POLICY_ICMPV6_TYPE_ANY,
    POLICY_ICMPV6_CODE_ANY,
    POLICY_EXTHDR_HBH,
    POLICY_EXTHDR_RT,
    POLICY_EXTHDR_FRAG,
    POLICY_EXTHDR_DST,
    POLICY_EXTHDR_MH,
    POLICY_META_L4PROTO,
    POLICY_META_NFPROTO,
    POLICY_META_MARK,
    POLICY_META_LENGTH,
    POLICY_META_IIF,
    POLICY_META_OIF,
    POLICY_META_IIFNAME,
    POLICY_META_OIFNAME,
    POLICY_META_SKUID,
    POLICY_META_SKGID,
    POLICY_CT_STATE_FIELD,
    POLICY_CT_MARK,
    POLICY_TLS_SNI,
    POLICY_TLS_SNI_EXISTS,
    POLICY_TLS_ALPN,
    POLICY_TLS_VERSION_FIELD,
    POLICY_TLS_ECH,
    POLICY_HTTP_HOST,
    POLICY_HTTP_HOST_EXISTS,
    POLICY_HTTP_METHOD_FIELD,
    POLICY_DNS_NAME,
    POLICY_DNS_NAME_EXISTS,
    POLICY_DNS_TYPE_FIELD,
    POLICY_FIELD_COUNT
};

/// IP version that a field needs: any, IPv4 or IPv6.
enum policy_layer3 { POLICY_ANY_L3, POLICY_NEEDS_IPV4, POLICY_NEEDS_IPV6 };

/// Properties of a field.
struct policy_field_facts {
    const char *text; // canonical text, e.g. "tcp dport"
    enum policy_type type;
    uint8_t bits;
    enum policy_part part;
    enum policy_layer3 layer3;
    uint8_t protocol; // IPPROTO_* that the field needs; 0 = any
};

/// The fields of each part, as bits 1 << enum policy_field.
#define POLICY_FIELDS_OF_IPV4                                                                      \
    (UINT64_C(1) << POLICY_IP_SADDR | UINT64_C(1) << POLICY_IP_DADDR |                             \
     UINT64_C(1) << POLICY_IP_PROTOCOL | UINT64_C(1) << POLICY_IP_TTL |                            \
     UINT64_C(1) << POLICY_IP_DSCP | UINT64_C(1) << POLICY_IP_LENGTH |                             \
     UINT64_C(1) << POLICY_IP_FRAG_OFF)
#define POLICY_FIELDS_OF_IPV6                                                                      \
    (UINT64_C(1) << POLICY_IP6_SADDR | UINT64_C(1) << POLICY_IP6_DADDR |                           \
     UINT64_C(1) << POLICY_IP6_NEXTHDR | UINT64_C(1) << POLICY_IP6_HOPLIMIT)
#define POLICY_FIELDS_OF_EXTENSION                                                                 \
    (UINT64_C(1) << POLICY_EXTHDR_HBH | UINT64_C(1) << POLICY_EXTHDR_RT |                          \
     UINT64_C(1) << POLICY_EXTHDR_FRAG | UINT64_C(1) << POLICY_EXTHDR_DST |                        \
     UINT64_C(1) << POLICY_EXTHDR_MH)
#define POLICY_FIELDS_OF_TRANSPORT                                                                 \
    (UINT64_C(1) << POLICY_TCP_SPORT | UINT64_C(1) << POLICY_TCP_DPORT |                           \
     UINT64_C(1) << POLICY_TCP_FLAGS | UINT64_C(1) << POLICY_UDP_SPORT |                           \
     UINT64_C(1) << POLICY_UDP_DPORT | UINT64_C(1) << POLICY_TH_SPORT |                            \
     UINT64_C(1) << POLICY_TH_DPORT | UINT64_C(1) << POLICY_ICMP_TYPE_FIELD |                      \
     UINT64_C(1) << POLICY_ICMP_CODE_FIELD | UINT64_C(1) << POLICY_ICMPV6_TYPE_FIELD |             \
     UINT64_C(1) << POLICY_ICMPV6_CODE_FIELD | UINT64_C(1) << POLICY_ICMP_TYPE_ANY |               \
     UINT64_C(1) << POLICY_ICMP_CODE_ANY | UINT64_C(1) << POLICY_ICMPV6_TYPE_ANY |                 \
     UINT64_C(1) << POLICY_ICMPV6_CODE_ANY)
#define POLICY_FIELDS_OF_TCP_OPTION (UINT64_C(1) << POLICY_TCP_OPTION_MPTCP)
#define POLICY_FIELDS_OF_PROTOCOL (UINT64_C(1) << POLICY_META_L4PROTO)
#define POLICY_FIELDS_OF_LENGTH (UINT64_C(1) << POLICY_META_LENGTH)
#define POLICY_FIELDS_OF_META                                                                      \
    (UINT64_C(1) << POLICY_META_NFPROTO | UINT64_C(1) << POLICY_META_MARK |                        \
     UINT64_C(1) << POLICY_META_IIF | UINT64_C(1) << POLICY_META_OIF)
#define POLICY_FIELDS_OF_INTERFACE_NAME                                                            \
    (UINT64_C(1) << POLICY_META_IIFNAME | UINT64_C(1) << POLICY_META_OIFNAME)
#define POLICY_FIELDS_OF_OWNER (UINT64_C(1) << POLICY_META_SKUID | UINT64_C(1) << POLICY_META_SKGID)
#define POLICY_FIELDS_OF_CT_STATE (UINT64_C(1) << POLICY_CT_STATE_FIELD)
#define POLICY_FIELDS_OF_CT_MARK (UINT64_C(1) << POLICY_CT_MARK)
#define POLICY_FIELDS_OF_NAMES                                                                     \
    (UINT64_C(1) << POLICY_TLS_SNI | UINT64_C(1) << POLICY_TLS_SNI_EXISTS |                        \
     UINT64_C(1) << POLICY_TLS_ALPN | UINT64_C(1) << POLICY_TLS_VERSION_FIELD |                    \
     UINT64_C(1) << POLICY_TLS_ECH | UINT64_C(1) << POLICY_HTTP_HOST |                             \
     UINT64_C(1) << POLICY_HTTP_HOST_EXISTS | UINT64_C(1) << POLICY_HTTP_METHOD_FIELD |            \
     UINT64_C(1) << POLICY_DNS_NAME | UINT64_C(1) << POLICY_DNS_NAME_EXISTS |                      \
     UINT64_C(1) << POLICY_DNS_TYPE_FIELD)

/// Returns the properties of a field, from a constant table.
const struct policy_field_facts *policy_field_facts(enum policy_field field);

/// Returns the name of a type in the language, e.g. "ipv4_addr".
const char *policy_type_name(enum policy_type type);

#endif
