// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/fields.toml.
#include "spec/group.h"

const struct group group_words[GROUP_COUNT] = {
    {"ip", PARSE_AT_IP, "saddr, daddr, protocol, ttl, dscp, length or frag-off"},
    {"ip6", PARSE_AT_IP6, "saddr, daddr, nexthdr or hoplimit"},
    {"tcp", PARSE_AT_TCP, "sport, dport or flags"},
    {"tcp option", PARSE_AT_TCP_OPTION, "mptcp"},
    {"udp", PARSE_AT_UDP, "sport or dport"},
    {"th", PARSE_AT_UDP, "sport or dport"},
    {"icmp", PARSE_AT_ICMP, "type or code"},
    {"icmpv6", PARSE_AT_ICMPV6, "type or code"},
    {"exthdr", PARSE_AT_EXTHDR, "hbh, rt, frag, dst or mh"},
    {"tls", PARSE_AT_NAMES, "sni, alpn, version or ech"},
    {"http", PARSE_AT_NAMES, "host or method"},
    {"dns", PARSE_AT_NAMES, "name or type"},
    {"ct", PARSE_AT_CT, "state or mark"},
    {"meta", PARSE_AT_META,
     "l4proto, nfproto, mark, length, iif, oif, iifname, oifname, skuid or skgid"},
};

const char *const group_alone[GROUP_ALONE_COUNT] = {
    "mark", "iif", "oif", "iifname", "oifname", "skuid", "skgid",
};
