// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml: the objects in lines of events, and the program's
// own events.
#ifndef SPEC_EVENT_H
#define SPEC_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENTS_FIGURES_MAX = 5 }; // maximum number of figures of an event

/// Kind of an event of the firewall itself, as opposed to events of packets.
enum events_kind {
    EVENTS_STARTED, // packets are decided
    EVENTS_STOPPED, // the firewall ends by itself: on request, after an error or after an upgrade
    EVENTS_RELOAD,  // the policy was reloaded: its number, its rules, and how many of them are as
                    // before, new, or gone
    EVENTS_RELOAD_FAILED, // a reload failed, and the old policy stays: `text` says why
    EVENTS_STALL,         // the guard began to answer packets of a stalled queue: how many at first
    EVENTS_OVERLOAD,      // the kernel dropped packets of a queue: how many since the last check
    EVENTS_UPGRADE,  // in place of `started`: packets are decided by a firewall that took over the
                     // queues
    EVENTS_LEFT_OUT, // events above --events-rate were left out: how many
    EVENTS_LOST, // events were lost: how many, and the place without room (`text`): `ring`, `sink`,
                 // `tail`
    EVENTS_KIND_COUNT
};

/// Names of an event and of its figures (numbers), as in the event's line of JSON.
struct events_names {
    const char *name;
    const char *figures[EVENTS_FIGURES_MAX + 1]; // names of the figures, ended by NULL
};

/// Names of each event, indexed by enum events_kind.
extern const struct events_names events_names[EVENTS_KIND_COUNT];

/// String in a JSON object: `text` or `made`. The string is missing if both are NULL.
struct event_string {
    const char *text;
    char *made; // allocated string in place of text; freed when it is written
};

/// Number or boolean in a JSON object. It is missing if `known` is false.
struct event_number {
    bool known;
    uint64_t value;
};

/// Returns a value as a number that is not missing.
static inline struct event_number event_number(uint64_t value) {
    return (struct event_number){true, value};
}

/// Figures (numbers) of an event, with their names; values is NULL if there are none.
struct event_figures {
    const char *const *names; // ends with NULL
    const uint64_t *values;
};

// docs/EVENTS.md describes the members. A pointer to a missing object is NULL.

/// JSON object in events: each line about a packet.
struct event_line {
    struct event_string timestamp;
    struct event_number flow_id;
    struct event_string in_iface;
    struct event_string out_iface;
    struct event_string event_type;
    struct event_string src_ip;
    struct event_number src_port;
    struct event_string dest_ip;
    struct event_number dest_port;
    struct event_string proto;
    struct event_number icmp_type;
    struct event_number icmp_code;
    const struct event_drop *drop;
    const struct event_reject *reject;
    const struct event_accept *accept;
    const struct event_anomaly *anomaly;
    const struct event_log *log;
    const struct event_tls *tls;
    const struct event_quic *quic;
    const struct event_http *http;
    const struct event_dns *dns;
    const struct event_twinwall *twinwall;
    struct event_string packet;
    const struct event_packet_info *packet_info;
    const struct event_input *input;
};

/// JSON object in events: the packet's headers, in the objects `drop`, `reject`, `accept` and
/// `log`.
struct event_headers {
    struct event_number len;
    struct event_number tos;
    struct event_number ttl;
    struct event_number ipid;
    struct event_number tc;
    struct event_number hoplimit;
    struct event_number flowlbl;
    struct event_number tcpseq;
    struct event_number tcpack;
    struct event_number tcpwin;
    struct event_number syn;
    struct event_number ack;
    struct event_number psh;
    struct event_number rst;
    struct event_number urg;
    struct event_number fin;
    struct event_number tcpres;
    struct event_number tcpurgp;
    struct event_number udplen;
    struct event_number icmp_id;
    struct event_number icmp_seq;
};

/// JSON object in events: `drop`.
struct event_drop {
    struct event_headers headers;
    struct event_string reason;
};

/// JSON object in events: `reject`.
struct event_reject {
    struct event_headers headers;
    struct event_string reply;
};

/// JSON object in events: `accept`.
struct event_accept {
    struct event_headers headers;
};

/// JSON object in events: `anomaly`.
struct event_anomaly {
    struct event_string type;
    struct event_string event;
};

/// JSON object in events: `tls`.
struct event_tls {
    struct event_string sni;
    struct event_string version;
};

/// JSON object in events: `quic`.
struct event_quic {
    struct event_string sni;
};

/// JSON object in events: `http`.
struct event_http {
    struct event_string hostname;
    struct event_string http_method;
};

/// JSON object in events: `dns`, a packet's query; of several over TCP, the one that decided the
/// packet, else the last.
struct event_dns {
    struct event_string type;
    struct event_string rrname;
    struct event_string rrtype;
};

/// JSON object in events: `log`.
struct event_log {
    struct event_string action;
    struct event_string prefix;
    struct event_string level;
    struct event_headers headers;
};

/// JSON object in events: `twinwall`, in a line about a packet.
struct event_twinwall {
    struct event_string verdict;
    struct event_string by;
    struct event_string rule;
    struct event_string comment;
    struct event_string table;
    struct event_string chain;
    struct event_number statement;
    struct event_string hook;
    struct event_number queue;
    struct event_number generation;
    struct event_number mark;
};

/// JSON object in events: `packet_info`, the link type of `packet`.
struct event_packet_info {
    struct event_number linktype;
};

/// JSON object in events: `input`, the packet's metadata.
struct event_input {
    struct event_number length;
    struct event_number captured;
    struct event_number ethertype;
    struct event_number hook;
    struct event_number iif;
    struct event_string iifname;
    struct event_number oif;
    struct event_string oifname;
    struct event_number mark;
    struct event_number uid;
    struct event_number gid;
    struct event_string ct_state;
    struct event_number ct_mark;
    struct event_string status;
    struct event_number truncated;
};

/// JSON object in events: each line about the firewall itself.
struct event_own_line {
    struct event_string timestamp;
    struct event_string event_type;
    const struct event_own *twinwall;
};

/// JSON object in events: `twinwall`, in a line about the firewall itself.
struct event_own {
    struct event_string event;
    struct event_string program;
    struct event_string version;
    struct event_string text;
    struct event_figures figures;
};

enum event_type {
    EVENT_TYPE_STRING,  // struct event_string
    EVENT_TYPE_NUMBER,  // struct event_number
    EVENT_TYPE_BOOLEAN, // struct event_number
    EVENT_TYPE_FIGURES, // struct event_figures: each figure becomes a member in its place
    EVENT_TYPE_OBJECT,  // a pointer to the struct that event_member.members describes
    EVENT_TYPE_MEMBERS, // that struct itself: its members are written in its place
};

/// Member of a JSON object, and the place of its value in the object's struct.
struct event_member {
    const char *name; // NULL = there are no more
    enum event_type type;
    bool null; // true if a missing member is written as null; false if it is left out
    size_t offset;
    const struct event_member *members;
};

extern const struct event_member event_line_members[];
extern const struct event_member event_headers_members[];
extern const struct event_member event_drop_members[];
extern const struct event_member event_reject_members[];
extern const struct event_member event_accept_members[];
extern const struct event_member event_anomaly_members[];
extern const struct event_member event_tls_members[];
extern const struct event_member event_quic_members[];
extern const struct event_member event_http_members[];
extern const struct event_member event_dns_members[];
extern const struct event_member event_log_members[];
extern const struct event_member event_twinwall_members[];
extern const struct event_member event_packet_info_members[];
extern const struct event_member event_input_members[];
extern const struct event_member event_own_line_members[];
extern const struct event_member event_own_members[];

#endif
