// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/symbols.toml.
#include "spec/symbols.h"

#include <stddef.h>

const struct symbol symbols_protocols[] = {
    {"icmp", 1},  {"igmp", 2},  {"ipencap", 4}, {"tcp", 6},       {"udp", 17},       {"dccp", 33},
    {"ipv6", 41}, {"gre", 47},  {"esp", 50},    {"ah", 51},       {"ipv6-icmp", 58}, {"icmpv6", 58},
    {"ospf", 89}, {"pim", 103}, {"sctp", 132},  {"udplite", 136}, {NULL, 0},
};

/// Names that are printed in place of numbers. A number that is not here is printed as a number.
static const struct symbol protocols_printed[] = {
    {"tcp", 6},  {"udp", 17},       {"udplite", 136}, {"esp", 50},   {"ah", 51},
    {"icmp", 1}, {"ipv6-icmp", 58}, {"dccp", 33},     {"sctp", 132}, {NULL, 0},
};

const struct symbol symbols_services[] = {
    {"ftp-data", 20},      {"ftp", 21},
    {"ssh", 22},           {"telnet", 23},
    {"smtp", 25},          {"domain", 53},
    {"bootps", 67},        {"bootpc", 68},
    {"tftp", 69},          {"http", 80},
    {"kerberos", 88},      {"pop3", 110},
    {"sunrpc", 111},       {"auth", 113},
    {"nntp", 119},         {"ntp", 123},
    {"imap2", 143},        {"snmp", 161},
    {"bgp", 179},          {"ldap", 389},
    {"https", 443},        {"microsoft-ds", 445},
    {"submissions", 465},  {"isakmp", 500},
    {"syslog", 514},       {"submission", 587},
    {"ldaps", 636},        {"imaps", 993},
    {"pop3s", 995},        {"openvpn", 1194},
    {"mysql", 3306},       {"ms-wbt-server", 3389},
    {"ipsec-nat-t", 4500}, {"postgresql", 5432},
    {"mdns", 5353},        {"redis", 6379},
    {"http-alt", 8080},    {NULL, 0},
};

const struct symbol symbols_tcp_flags[] = {
    {"fin", 1},  {"syn", 2},  {"rst", 4},   {"psh", 8}, {"ack", 16},
    {"urg", 32}, {"ecn", 64}, {"cwr", 128}, {NULL, 0},
};

const struct symbol symbols_icmp_types[] = {
    {"echo-reply", 0},           {"destination-unreachable", 3},
    {"source-quench", 4},        {"redirect", 5},
    {"echo-request", 8},         {"router-advertisement", 9},
    {"router-solicitation", 10}, {"time-exceeded", 11},
    {"parameter-problem", 12},   {"timestamp-request", 13},
    {"timestamp-reply", 14},     {"info-request", 15},
    {"info-reply", 16},          {"address-mask-request", 17},
    {"address-mask-reply", 18},  {NULL, 0},
};

const struct symbol symbols_icmp_codes[] = {
    {"net-unreachable", 0},  {"host-unreachable", 1},  {"prot-unreachable", 2},
    {"port-unreachable", 3}, {"frag-needed", 4},       {"net-prohibited", 9},
    {"host-prohibited", 10}, {"admin-prohibited", 13}, {NULL, 0},
};

const struct symbol symbols_icmpv6_types[] = {
    {"destination-unreachable", 1},
    {"packet-too-big", 2},
    {"time-exceeded", 3},
    {"parameter-problem", 4},
    {"echo-request", 128},
    {"echo-reply", 129},
    {"mld-listener-query", 130},
    {"mld-listener-report", 131},
    {"mld-listener-done", 132},
    {"nd-router-solicit", 133},
    {"nd-router-advert", 134},
    {"nd-neighbor-solicit", 135},
    {"nd-neighbor-advert", 136},
    {"nd-redirect", 137},
    {"router-renumbering", 138},
    {"ind-neighbor-solicit", 141},
    {"ind-neighbor-advert", 142},
    {"mld2-listener-report", 143},
    {NULL, 0},
};

const struct symbol symbols_icmpv6_codes[] = {
    {"no-route", 0},
    {"admin-prohibited", 1},
    {"addr-unreachable", 3},
    {"port-unreachable", 4},
    {"policy-fail", 5},
    {"reject-route", 6},
    {NULL, 0},
};

const struct symbol symbols_dscps[] = {
    {"cs0", 0},   {"cs1", 8},   {"cs2", 16},  {"cs3", 24},  {"cs4", 32},  {"cs5", 40},
    {"cs6", 48},  {"cs7", 56},  {"af11", 10}, {"af12", 12}, {"af13", 14}, {"af21", 18},
    {"af22", 20}, {"af23", 22}, {"af31", 26}, {"af32", 28}, {"af33", 30}, {"af41", 34},
    {"af42", 36}, {"af43", 38}, {"ef", 46},   {NULL, 0},
};

const struct symbol symbols_ct_states[] = {
    {"invalid", 1}, {"established", 2}, {"related", 4}, {"new", 8}, {"untracked", 64}, {NULL, 0},
};

const struct symbol symbols_nf_protos[] = {
    {"ipv4", 2},
    {"ipv6", 10},
    {NULL, 0},
};

const struct symbol symbols_booleans[] = {
    {"exists", 1},
    {"missing", 0},
    {NULL, 0},
};

const struct symbol symbols_tls_versions[] = {
    {"1.0", 769}, {"1.1", 770}, {"1.2", 771}, {"1.3", 772}, {NULL, 0},
};

const struct symbol symbols_dns_types[] = {
    {"a", 1},       {"ns", 2},     {"cname", 5},  {"soa", 6},    {"ptr", 12},
    {"hinfo", 13},  {"mx", 15},    {"txt", 16},   {"aaaa", 28},  {"srv", 33},
    {"naptr", 35},  {"ds", 43},    {"sshfp", 44}, {"rrsig", 46}, {"nsec", 47},
    {"dnskey", 48}, {"tlsa", 52},  {"svcb", 64},  {"https", 65}, {"spf", 99},
    {"ixfr", 251},  {"axfr", 252}, {"any", 255},  {"caa", 257},  {NULL, 0},
};

const struct symbol symbols_reject_icmp[] = {
    {"net-unreachable", 0},   {"host-unreachable", 1},
    {"prot-unreachable", 2},  {"port-unreachable", 3},
    {"net-prohibited", 9},    {"host-prohibited", 10},
    {"admin-prohibited", 13}, {NULL, 0},
};

const struct symbol symbols_reject_icmpx[] = {
    {"port-unreachable", 1},
    {"admin-prohibited", 3},
    {"no-route", 0},
    {"host-unreachable", 2},
    {NULL, 0},
};

const struct symbol symbols_levels[] = {
    {"emerg", 0},  {"alert", 1}, {"crit", 2},  {"err", 3}, {"warn", 4},
    {"notice", 5}, {"info", 6},  {"debug", 7}, {NULL, 0},
};

const struct symbol symbols_units[] = {
    {"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86400}, {"week", 604800}, {NULL, 0},
};

const struct symbol symbols_none[] = {{NULL, 0}};

const struct symbol *symbols_of(enum policy_type type) {
    switch (type) {
    case POLICY_INET_PROTO:
        return symbols_protocols;
    case POLICY_INET_SERVICE:
        return symbols_services;
    case POLICY_TCP_FLAG:
        return symbols_tcp_flags;
    case POLICY_ICMP_TYPE:
        return symbols_icmp_types;
    case POLICY_ICMP_CODE:
        return symbols_icmp_codes;
    case POLICY_ICMPV6_TYPE:
        return symbols_icmpv6_types;
    case POLICY_ICMPV6_CODE:
        return symbols_icmpv6_codes;
    case POLICY_DSCP:
        return symbols_dscps;
    case POLICY_CT_STATE:
        return symbols_ct_states;
    case POLICY_NF_PROTO:
        return symbols_nf_protos;
    case POLICY_BOOLEAN:
        return symbols_booleans;
    case POLICY_TLS_VERSION:
        return symbols_tls_versions;
    case POLICY_DNS_TYPE:
        return symbols_dns_types;
    default:
        return symbols_none;
    }
}

const struct symbol *symbols_printed(enum policy_type type) {
    switch (type) {
    case POLICY_INET_PROTO:
        return protocols_printed;
    case POLICY_TCP_FLAG:
        return symbols_tcp_flags;
    case POLICY_ICMP_TYPE:
        return symbols_icmp_types;
    case POLICY_ICMPV6_TYPE:
        return symbols_icmpv6_types;
    case POLICY_DSCP:
        return symbols_dscps;
    case POLICY_CT_STATE:
        return symbols_ct_states;
    case POLICY_NF_PROTO:
        return symbols_nf_protos;
    case POLICY_BOOLEAN:
        return symbols_booleans;
    case POLICY_TLS_VERSION:
        return symbols_tls_versions;
    case POLICY_DNS_TYPE:
        return symbols_dns_types;
    default:
        return symbols_none;
    }
}
