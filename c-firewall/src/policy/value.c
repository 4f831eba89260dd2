// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/value.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/object.h"
#include "policy/symbol.h"

enum {
    IPV6_GROUPS = 8,
    VALUE_BYTES = 16,
    REJECT_CODE_MAX = 254, // largest ICMP code that nf_tables' reject accepts
};

/// Returns true if a policy may write any number with the bits of a type as a value of this type.
/// Returns false for nf_proto, because only the numbers 2 and 10 are its values.
static bool takes_numbers(enum policy_type type) {
    switch (type) {
    case POLICY_IPV6_ADDR:
    case POLICY_IFNAME:
    case POLICY_IFACE_INDEX:
    case POLICY_NF_PROTO:
    case POLICY_BOOLEAN:
    case POLICY_HOSTNAME:
    case POLICY_ALPN:
    case POLICY_TLS_VERSION:
    case POLICY_HTTP_METHOD:
        return false;
    default:
        return true;
    }
}

/// Returns the error text for a token that is no value of this type.
static const char *cause_of(enum policy_type type) {
    static const char *const causes[] = {
        [POLICY_IPV4_ADDR] = "not an IPv4 address",
        [POLICY_IPV6_ADDR] = "not an IPv6 address",
        [POLICY_INET_PROTO] = "not a protocol that is known here: write its number",
        [POLICY_INET_SERVICE] = "not a service that is known here: write its port",
        [POLICY_TCP_FLAG] = "not one of fin syn rst psh ack urg ecn cwr, nor a number",
        [POLICY_ICMP_TYPE] = "not an ICMP type such as echo-request, nor a number",
        [POLICY_ICMP_CODE] = "not an ICMP code such as port-unreachable, nor a number",
        [POLICY_ICMPV6_TYPE] = "not an ICMPv6 type such as echo-request, nor a number",
        [POLICY_ICMPV6_CODE] = "not an ICMPv6 code such as port-unreachable, nor a number",
        [POLICY_DSCP] = "not one of cs0 to cs7, af11 to af43, ef, nor a number",
        [POLICY_MARK] = "not a number",
        [POLICY_IFNAME] = "not the name of an interface",
        [POLICY_IFACE_INDEX] = "not the name of an interface",
        [POLICY_UID] = "not a number: `id -u NAME` prints that of a user",
        [POLICY_GID] = "not a number: `getent group NAME` prints that of a group",
        [POLICY_CT_STATE] = "not one of invalid established related new untracked, nor a number",
        [POLICY_NF_PROTO] = "not one of ipv4 ipv6, 2 and 10",
        [POLICY_INTEGER] = "not a number",
        [POLICY_BOOLEAN] = "not one of exists missing",
        [POLICY_HOSTNAME] = "not the name of a host: write it in quotes",
        [POLICY_ALPN] = "not a protocol such as h2: write it in quotes",
        [POLICY_TLS_VERSION] = "not one of 1.0 1.1 1.2 1.3",
        [POLICY_HTTP_METHOD] = "not a method such as GET: write it in quotes",
        [POLICY_DNS_TYPE] = "not a type of DNS such as aaaa that is known here: write its number",
    };

    return causes[type];
}

/// Returns the error text for a number that has more than this many bits.
static const char *cause_of_size(uint8_t bits) {
    switch (bits) {
    case 6:
        return "larger than 63";
    case 8:
        return "larger than 255";
    case 16:
        return "larger than 65535";
    default:
        return "larger than 4294967295";
    }
}

static policy_value from_bytes(const uint8_t *bytes, size_t count) {
    policy_value value = 0;

    for (size_t i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void to_bytes(policy_value value, uint8_t bytes[static VALUE_BYTES]) {
    for (int i = VALUE_BYTES - 1; i >= 0; i--) {
        bytes[i] = (uint8_t)value;
        value >>= 8;
    }
}

static struct policy_range single(policy_value value) {
    return (struct policy_range){.low = value, .high = value};
}

static const char *parse_address(enum policy_type type, const struct token *token,
                                 struct policy_range *range) {
    const bool is_ipv4 = type == POLICY_IPV4_ADDR;
    uint8_t bytes[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];

    if (token->length >= sizeof text)
        return cause_of(type);
    memcpy(text, token->text, token->length);
    text[token->length] = '\0';
    if (inet_pton(is_ipv4 ? AF_INET : AF_INET6, text, bytes) != 1)
        return cause_of(type);
    *range = single(from_bytes(bytes, is_ipv4 ? sizeof(struct in_addr) : sizeof bytes));
    return NULL;
}

static policy_value interface_filled(const struct token *token, size_t length, uint8_t rest) {
    uint8_t bytes[VALUE_INTERFACE_BYTES];

    memset(bytes, rest, sizeof bytes);
    memcpy(bytes, token->text, length);
    return from_bytes(bytes, sizeof bytes);
}

static const char *parse_interface(enum policy_type type, const struct token *token,
                                   struct policy_range *range) {
    const bool open = token->length > 0 && token->text[token->length - 1] == '*';
    const size_t length = token->length - open;

    if (memchr(token->text, '*', length))
        return "a `*` is allowed only at the end";
    if (open && type == POLICY_IFACE_INDEX)
        return "no `*` here: iifname and oifname take one";
    if (memchr(token->text, '\\', length))
        return "no interface is named with a backslash";
    if (length == 0)
        return "an interface has a name";
    if (length >= VALUE_INTERFACE_BYTES)
        return "longer than the 15 bytes of an interface's name";
    range->low = interface_filled(token, length, 0);
    range->high = interface_filled(token, length, open ? 0xff : 0);
    return NULL;
}

/// Parses the name of an ALPN protocol or an HTTP method. Its value is its bytes, NUL-padded, as a
/// big-endian number.
static const char *parse_short(enum policy_type type, const struct token *token,
                               struct policy_range *range) {
    static const char of_token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    if (token->length == 0)
        return "empty";
    if (token->length > VALUE_SHORT_BYTES)
        return "longer than 16 bytes";
    for (size_t i = 0; type == POLICY_HTTP_METHOD && i < token->length; i++)
        if (!strchr(of_token, token->text[i]))
            return "not a method of HTTP (RFC 9110, section 9.1)";
    *range = single(value_short((const uint8_t *)token->text, token->length));
    return NULL;
}

policy_value value_short(const uint8_t *name, size_t length) {
    uint8_t bytes[VALUE_SHORT_BYTES] = {0};

    memcpy(bytes, name, length < sizeof bytes ? length : sizeof bytes);
    return from_bytes(bytes, sizeof bytes);
}

static const char *parse_number(uint8_t bits, const struct token *token,
                                struct policy_range *range) {
    if (token->number > value_max(bits))
        return cause_of_size(bits);
    *range = single(token->number);
    return NULL;
}

static const char *parse_symbol(enum policy_type type, const struct token *token,
                                struct policy_range *range) {
    const struct symbol *symbol = symbol_find(symbols_of(type), token->text, token->length);

    if (!symbol)
        return cause_of(type);
    *range = single(symbol->number);
    return NULL;
}

const char *value_parse(enum policy_type type, uint8_t bits, const struct token *token,
                        struct policy_range *range) {
    const bool is_address = type == POLICY_IPV4_ADDR || type == POLICY_IPV6_ADDR;

    if ((type == POLICY_IPV4_ADDR && token->kind == TOKEN_IPV4) ||
        (type == POLICY_IPV6_ADDR && token->kind == TOKEN_IPV6) ||
        (is_address && token->kind == TOKEN_STRING))
        return parse_address(type, token, range);
    if (type == POLICY_IPV4_ADDR && token->kind == TOKEN_WORD)
        return "not an IPv4 address: names are not looked up";
    if (type == POLICY_IPV6_ADDR && token->kind == TOKEN_WORD)
        return "not an IPv6 address: names are not looked up";
    if ((type == POLICY_IFNAME || type == POLICY_IFACE_INDEX) &&
        (token->kind == TOKEN_WORD || token->kind == TOKEN_WILDCARD || token->kind == TOKEN_STRING))
        return parse_interface(type, token, range);
    if ((type == POLICY_ALPN || type == POLICY_HTTP_METHOD) && token->kind == TOKEN_STRING)
        return parse_short(type, token, range);
    if (type == POLICY_TLS_VERSION && token->kind == TOKEN_IPV4)
        return parse_symbol(type, token, range);
    if (token->kind == TOKEN_NUMBER && takes_numbers(type))
        return parse_number(bits, token, range);
    if (type == POLICY_NF_PROTO && token->kind == TOKEN_NUMBER &&
        symbol_name(symbols_of(type), token->number)) {
        *range = single(token->number);
        return NULL;
    }
    if (token->kind == TOKEN_WORD || token->kind == TOKEN_STRING)
        return parse_symbol(type, token, range);
    return cause_of(type);
}

const char *value_prefix(enum policy_type type, policy_value address, uint64_t length,
                         struct policy_range *range) {
    const uint8_t bits = value_bits(type);
    policy_value host;

    if (length > bits)
        return type == POLICY_IPV4_ADDR ? "a prefix of IPv4 has 0 to 32 bits"
                                        : "a prefix of IPv6 has 0 to 128 bits";
    host = value_max((uint8_t)(bits - length));
    *range = (struct policy_range){.low = address & ~host, .high = address | host};
    return NULL;
}

bool value_begins(const struct token *token) {
    switch (token->kind) {
    case TOKEN_WORD:
    case TOKEN_WILDCARD:
    case TOKEN_NUMBER:
    case TOKEN_IPV4:
    case TOKEN_IPV6:
    case TOKEN_STRING:
        return true;
    default:
        return false;
    }
}

uint8_t value_bits(enum policy_type type) {
    switch (type) {
    case POLICY_IPV6_ADDR:
    case POLICY_IFNAME:
    case POLICY_HTTP_METHOD:
        return 128;
    case POLICY_INET_SERVICE:
    case POLICY_TLS_VERSION:
    case POLICY_DNS_TYPE:
        return 16;
    case POLICY_INET_PROTO:
    case POLICY_TCP_FLAG:
    case POLICY_ICMP_TYPE:
    case POLICY_ICMP_CODE:
    case POLICY_ICMPV6_TYPE:
    case POLICY_ICMPV6_CODE:
    case POLICY_NF_PROTO:
        return 8;
    case POLICY_DSCP:
        return 6;
    case POLICY_BOOLEAN:
        return 1;
    default:
        return 32;
    }
}

policy_value value_max(uint8_t bits) { return bits == 0 ? 0 : ~(policy_value)0 >> (128 - bits); }

bool value_is_flags(enum policy_type type) {
    return type == POLICY_TCP_FLAG || type == POLICY_CT_STATE;
}

bool value_find_type(const struct token *token, enum policy_type *type) {
    for (unsigned i = 0; i < POLICY_TYPE_COUNT; i++)
        if ((POLICY_NAMEABLE_TYPES >> i & 1) && token_is(token, policy_type_name(i))) {
            *type = i;
            return true;
        }
    return false;
}

const char *value_parse_reject(enum policy_reject_kind kind, const struct token *token,
                               uint8_t *code) {
    const struct symbol *symbols = symbols_of_reject(kind), *symbol = NULL;

    if (token->kind == TOKEN_NUMBER &&
        (kind == POLICY_REJECT_ICMPX ? symbol_name(symbols, token->number) != NULL
                                     : token->number <= REJECT_CODE_MAX)) {
        *code = (uint8_t)token->number;
        return NULL;
    }
    if (token->kind == TOKEN_WORD)
        symbol = symbol_find(symbols, token->text, token->length);
    if (symbol) {
        *code = (uint8_t)symbol->number;
        return NULL;
    }
    switch (kind) {
    case POLICY_REJECT_ICMP:
        return "not one of net-unreachable host-unreachable prot-unreachable port-unreachable "
               "net-prohibited host-prohibited admin-prohibited, nor a number up to 254";
    case POLICY_REJECT_ICMPV6:
        return "not one of no-route admin-prohibited addr-unreachable port-unreachable policy-fail "
               "reject-route, nor a number up to 254";
    default:
        return "not one of port-unreachable admin-prohibited no-route host-unreachable, nor their "
               "number";
    }
}

const char *value_reject_name(enum policy_reject_kind kind, uint8_t code) {
    return symbol_name(symbols_of_reject(kind), code);
}

int value_find_level(const struct token *token) {
    const struct symbol *level = NULL;

    if (token->kind == TOKEN_WORD)
        level = symbol_find(symbols_levels, token->text, token->length);
    return level ? (int)level->number : -1;
}

const char *value_level_name(uint8_t level) { return symbol_name(symbols_levels, level); }

uint64_t value_find_unit(const char *text, size_t length) {
    const struct symbol *unit = symbol_find(symbols_units, text, length);

    return unit ? unit->number : 0;
}

const char *value_unit_name(uint64_t seconds) { return symbol_name(symbols_units, seconds); }

/// Prints the names of the bits of a value, and all bits without a name as one hexadecimal number.
static void print_flags(FILE *out, const struct symbol *symbols, policy_value value,
                        const char *joined) {
    const char *between = "";

    for (; symbols->name; symbols++)
        if (value & symbols->number) {
            fprintf(out, "%s%s", between, symbols->name);
            between = joined;
            value &= ~(policy_value)symbols->number;
        }
    if (value != 0)
        fprintf(out, "%s0x%" PRIx64, between, (uint64_t)value);
}

static void print_ipv4(FILE *out, policy_value address) {
    fprintf(out, "%u.%u.%u.%u", (unsigned)(address >> 24 & 0xff), (unsigned)(address >> 16 & 0xff),
            (unsigned)(address >> 8 & 0xff), (unsigned)(address & 0xff));
}

/// Prints an address by RFC 5952, without the mixed notation: the first of the longest runs of two
/// or more zero groups becomes `::`.
static void print_ipv6(FILE *out, policy_value address) {
    uint16_t groups[IPV6_GROUPS];
    int first = IPV6_GROUPS, longest = 1;
    bool colon = false;

    for (int i = 0; i < IPV6_GROUPS; i++)
        groups[i] = (uint16_t)(address >> (112 - 16 * i));
    for (int i = 0, zeros; i < IPV6_GROUPS; i += zeros ? zeros : 1) {
        zeros = 0;
        while (i + zeros < IPV6_GROUPS && groups[i + zeros] == 0)
            zeros++;
        if (zeros > longest) {
            first = i;
            longest = zeros;
        }
    }
    for (int i = 0; i < IPV6_GROUPS; i++) {
        if (i == first) {
            fputs("::", out);
            i += longest - 1;
            colon = false;
            continue;
        }
        fprintf(out, "%s%x", colon ? ":" : "", groups[i]);
        colon = true;
    }
}

/// Prints a name (of an interface, an ALPN protocol or an HTTP method) of at most VALUE_BYTES in
/// quotes. In a name that is not UTF-8, question marks replace all bytes that are not ASCII.
/// - rest: text after the name: "*" or "".
static void print_interface(FILE *out, policy_value value, const char *rest) {
    uint8_t bytes[VALUE_BYTES + 1] = {0};
    char *text;

    to_bytes(value, bytes);
    text = object_string_of((const char *)bytes);
    fprintf(out, "\"%s%s\"", text ? text : "", rest);
    free(text);
}

/// Prints a TLS version by its name, or as the hexadecimal number on the wire if it has no name.
static void print_version(FILE *out, policy_value version) {
    const char *name = symbol_name(symbols_of(POLICY_TLS_VERSION), version);

    if (name)
        fputs(name, out);
    else
        fprintf(out, "0x%04" PRIx64, (uint64_t)version);
}

/// Prints a value as a number, an address, a quoted text or a TLS version, not by its symbol.
static void print_number(FILE *out, enum policy_type type, policy_value value) {
    switch (type) {
    case POLICY_IPV4_ADDR:
        print_ipv4(out, value);
        break;
    case POLICY_IPV6_ADDR:
        print_ipv6(out, value);
        break;
    case POLICY_IFNAME:
    case POLICY_IFACE_INDEX:
    case POLICY_ALPN:
    case POLICY_HTTP_METHOD:
        print_interface(out, value, "");
        break;
    case POLICY_TLS_VERSION:
        print_version(out, value);
        break;
    case POLICY_MARK:
        fprintf(out, "0x%08" PRIx64, (uint64_t)value);
        break;
    case POLICY_DSCP:
        fprintf(out, "0x%02" PRIx64, (uint64_t)value);
        break;
    case POLICY_TCP_FLAG:
    case POLICY_CT_STATE:
        fprintf(out, "0x%" PRIx64, (uint64_t)value);
        break;
    default:
        fprintf(out, "%" PRIu64, (uint64_t)value);
    }
}

void value_print(FILE *out, enum policy_type type, policy_value value, const char *flags) {
    const char *name = symbol_name(symbols_printed(type), value);

    if (value_is_flags(type) && value != 0)
        print_flags(out, symbols_of(type), value, flags);
    else if (name)
        fputs(name, out);
    else
        print_number(out, type, value);
}

/// Returns the number of low bits in which the two ends of a prefix differ.
/// - differing: the XOR of the two ends.
static uint32_t host_bits(policy_value differing) {
    uint32_t bits = 0;

    while (bits < 128 && differing >> bits & 1)
        bits++;
    return bits;
}

void value_print_range(FILE *out, enum policy_type type, const struct policy_range *range) {
    const policy_value differing = range->low ^ range->high;
    const bool is_prefix = (differing & (differing + 1)) == 0 && (range->low & differing) == 0;

    if (range->low == range->high) {
        value_print(out, type, range->low, " | ");
    } else if (type == POLICY_IFNAME) {
        print_interface(out, range->low, "*");
    } else if (is_prefix && (type == POLICY_IPV4_ADDR || type == POLICY_IPV6_ADDR)) {
        print_number(out, type, range->low);
        fprintf(out, "/%u", value_bits(type) - host_bits(differing));
    } else {
        print_number(out, type, range->low);
        fputc('-', out);
        print_number(out, type, range->high);
    }
}

void value_print_mask(FILE *out, enum policy_type type, policy_value mask) {
    const bool several = (mask & (mask - 1)) != 0;

    if (type == POLICY_INTEGER) {
        fprintf(out, "0x%" PRIx64, (uint64_t)mask);
    } else if (value_is_flags(type) && several) {
        fputc('(', out);
        value_print(out, type, mask, " | ");
        fputc(')', out);
    } else {
        value_print(out, type, mask, ",");
    }
}
