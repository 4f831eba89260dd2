// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/symbols.toml: the names of numbers.
#ifndef SPEC_SYMBOLS_H
#define SPEC_SYMBOLS_H

#include "spec/field.h"

/// Name in the policy language, and the number that it means.
struct symbol {
    const char *name; // NULL ends a table
    uint32_t number;
};

/// The names of protocols of IP.
extern const struct symbol symbols_protocols[];
/// The names of ports of TCP and UDP.
extern const struct symbol symbols_services[];
/// The names of bits of byte 13 of the TCP header (RFC 9293).
extern const struct symbol symbols_tcp_flags[];
/// The names of types of ICMP (RFC 792).
extern const struct symbol symbols_icmp_types[];
/// The names of codes of ICMP type 3.
extern const struct symbol symbols_icmp_codes[];
/// The names of types of ICMPv6 (RFC 4443).
extern const struct symbol symbols_icmpv6_types[];
/// The names of codes of ICMPv6 type 1.
extern const struct symbol symbols_icmpv6_codes[];
/// The names of code points of differentiated services (RFC 2474).
extern const struct symbol symbols_dscps[];
/// The names of bits of the state of a connection (NF_CT_STATE_BIT).
extern const struct symbol symbols_ct_states[];
/// The names of families of packets (NFPROTO_*).
extern const struct symbol symbols_nf_protos[];
/// The names of results of tests whether a field exists.
extern const struct symbol symbols_booleans[];
/// The names of versions of TLS (RFC 8446, section 4.2.1).
extern const struct symbol symbols_tls_versions[];
/// The names of types of DNS (RFC 1035, section 3.2.2, and those after it).
extern const struct symbol symbols_dns_types[];
/// The names of codes of reject with icmp: fewer than icmp_code has.
extern const struct symbol symbols_reject_icmp[];
/// The names of codes of reject with icmpx (enum nft_reject_inet_code).
extern const struct symbol symbols_reject_icmpx[];
/// The names of levels of log.
extern const struct symbol symbols_levels[];
/// The names of units of limit, in seconds.
extern const struct symbol symbols_units[];

/// A table without names.
extern const struct symbol symbols_none[];

/// Returns the names for values of a type in the language; an empty table if there are none.
const struct symbol *symbols_of(enum policy_type type);

/// Returns the names that are printed in place of a type's numbers; an empty table if there are
/// none.
const struct symbol *symbols_printed(enum policy_type type);

#endif
