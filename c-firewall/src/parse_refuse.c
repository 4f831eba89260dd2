// SPDX-License-Identifier: GPL-2.0-or-later
#include "parse_refuse.h"

#include <string.h>

#define WHOLE "a policy is loaded whole"
#define NAMED "write counters, quotas and limits in the rule"
#define FIXED "sets do not change while packets run"
#define NAT "leave it to the kernel"
#define QUEUE "it is the kernel's own; the packet is already in a queue"
#define UNSEEN "it does not come through a queue"
#define FAMILIES "only IPv4 and IPv6 come through a queue"
#define RANDOM "a policy has no random numbers and hashes"
#define PORTS "test meta l4proto, and the ports with th sport, th dport"
#define PROTOCOL "test meta l4proto"

/// The words of a place, between blanks, and the hint.
struct hint {
    enum parse_where at;
    const char *words, *hint;
};

static const struct hint hints[] = {
    {PARSE_AT_FILE,
     "delete insert replace reset rename destroy list create update get export import monitor "
     "describe",
     WHOLE},
    {PARSE_AT_FILE, "chain rule set map element",
     "write it in the braces of its table, or with add before it"},
    {PARSE_AT_FILE, "redefine undefine", "a name is defined once, to the end of the text"},
    {PARSE_AT_ADD, "counter quota limit ct synproxy secmark", NAMED},
    {PARSE_AT_ADD, "flowtable", NAT},
    {PARSE_AT_FAMILY, "bridge arp netdev", FAMILIES},
    {PARSE_AT_TABLE, "counter quota limit ct synproxy secmark", NAMED},
    {PARSE_AT_TABLE, "flowtable", NAT},
    {PARSE_AT_TABLE, "flags", "a table is there or not"},
    {PARSE_AT_TABLE, "redefine undefine", "a name is defined once, to the end of the text"},
    {PARSE_AT_STATEMENT, "dnat snat masquerade redirect nat", NAT},
    {PARSE_AT_STATEMENT, "queue dup fwd tproxy synproxy notrack flow secmark", QUEUE},
    {PARSE_AT_STATEMENT, "add update delete meter set map", FIXED},
    {PARSE_AT_STATEMENT, "redefine undefine", "a name is defined once, to the end of the text"},
    {PARSE_AT_STATEMENT, "ether vlan arp ibrname obrname ibriport obriport",
     "a packet comes through a queue from its IP header on"},
    {PARSE_AT_STATEMENT,
     "rt fib socket osf ipsec xt cgroup pkttype cpu iifgroup oifgroup iiftype oiftype nftrace "
     "rtclassid time day hour",
     UNSEEN},
    {PARSE_AT_STATEMENT, "numgen jhash symhash random", RANDOM},
    {PARSE_AT_STATEMENT, "sctp dccp udplite", PORTS},
    {PARSE_AT_STATEMENT, "ah esp comp igmp gre", PROTOCOL},
    {PARSE_AT_STATEMENT, "hbh frag dst mh rt0 rt2 srh",
     "write exthdr, the header's name, and exists or missing"},
    {PARSE_AT_CHAIN_TYPE, "nat", NAT},
    {PARSE_AT_CHAIN_TYPE, "route", QUEUE},
    {PARSE_AT_HOOK, "ingress egress", FAMILIES},
    {PARSE_AT_SET, "timeout gc-interval size policy counter limit quota", FIXED},
    {PARSE_AT_SET_FLAG, "dynamic timeout", FIXED},
    {PARSE_AT_SET_TYPE, "tcp_flag ct_state dscp icmp_code icmpv6_code nf_proto integer boolean",
     "write typeof and the field"},
    {PARSE_AT_SET_TYPE,
     "ether_addr ether_type arp_op ct_dir ct_status ct_label realm classid devgroup pkt_type time "
     "day hour cgroupsv2 string verdict",
     "a set holds what a match can test"},
    {PARSE_AT_ELEMENT, "timeout expires counter limit quota", FIXED},
    {PARSE_AT_ELEMENT, "comment", "write it behind a #"},
    {PARSE_AT_IP, "version hdrlength ecn id checksum option",
     "of ip, saddr, daddr, protocol, ttl, dscp, length and frag-off are"},
    {PARSE_AT_IP6, "version priority dscp ecn flowlabel length",
     "of ip6, saddr, daddr, nexthdr and hoplimit are"},
    {PARSE_AT_TCP, "sequence ackseq doff reserved window checksum urgptr option",
     "of tcp, sport, dport and flags are"},
    {PARSE_AT_UDP, "length checksum", "of udp, sport and dport are"},
    {PARSE_AT_ICMP, "checksum id sequence gateway mtu", "of icmp, type and code are"},
    {PARSE_AT_ICMPV6, "checksum id sequence mtu max-delay parameter-problem packet-too-big",
     "of icmpv6, type and code are"},
    {PARSE_AT_EXTHDR, "rt0 rt2 srh", "of exthdr, hbh, rt, frag, dst and mh are"},
    {PARSE_AT_META, "protocol", "write meta nfproto"},
    {PARSE_AT_META,
     "priority pkttype cpu iifgroup oifgroup iiftype oiftype nftrace rtclassid cgroup ibrname "
     "obrname ibriport obriport time day hour ipsec secpath secmark sdif sdifname iifkind oifkind "
     "broute",
     UNSEEN},
    {PARSE_AT_META, "random", RANDOM},
    {PARSE_AT_CT,
     "status direction expiration helper label l3proto protocol original reply saddr daddr "
     "proto-src proto-dst zone event bytes packets avgpkt count id ip ip6 secmark expectation "
     "timeout",
     "of ct, state and mark are"},
    {PARSE_AT_NAMED, "name", NAMED},
    {PARSE_AT_LOG, "group snaplen queue-threshold flags",
     "log is counted: of log, prefix and level are"},
    {PARSE_AT_ASSIGNED, "set", "only meta mark can be set"},
};

/// Whether a text is one of words between blanks.
static bool is_among(const char *words, const char *text, size_t length) {
    for (const char *word = words; *word;) {
        const size_t bytes = strcspn(word, " ");

        if (bytes == length && memcmp(word, text, length) == 0)
            return true;
        word += bytes + (word[bytes] == ' ');
    }
    return false;
}

/// The hint for a word that is met somewhere, if nft knows it there and the language does not; or
/// NULL.
static const char *find_word(enum parse_where at, const char *text, size_t length) {
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (hints[i].at == at && is_among(hints[i].words, text, length))
            return hints[i].hint;
    return NULL;
}

/// The hint for a token that is met somewhere, or NULL.
static const char *find_hint(enum parse_where at, const struct token *token) {
    if (token->kind == TOKEN_WORD)
        return find_word(at, token->text, token->length);
    if (token->sign == SIGN_AT && at == PARSE_AT_STATEMENT)
        return "write the field by its name";
    if (token->kind == TOKEN_OTHER && at == PARSE_AT_ELEMENT && token->length == 1 &&
        *token->text == '*')
        return "write a rule behind this one for the rest";
    return NULL;
}

int parse_refuse_check(struct lexer *lexer, enum parse_where at, const struct token *token) {
    const char *hint = find_hint(at, token);

    return hint ? lexer_refuse(lexer, token, hint) : 0;
}

int parse_refuse_unexpected(struct lexer *lexer, enum parse_where at, const struct token *token,
                            const char *expected) {
    const char *hint = find_hint(at, token);

    return hint ? lexer_refuse(lexer, token, hint) : lexer_unexpected(lexer, token, expected);
}
