// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml.
#include "spec/event.h"

const struct events_names events_names[EVENTS_KIND_COUNT] = {
    [EVENTS_STARTED] = {"started", {NULL}},
    [EVENTS_STOPPED] = {"stopped", {NULL}},
    [EVENTS_RELOAD] = {"reload", {"generation", "rules", "kept", "added", "removed", NULL}},
    [EVENTS_RELOAD_FAILED] = {"reload_failed", {NULL}},
    [EVENTS_STALL] = {"stall", {"queue", "packets", NULL}},
    [EVENTS_OVERLOAD] = {"overload", {"queue", "lost", NULL}},
    [EVENTS_UPGRADE] = {"upgrade", {NULL}},
    [EVENTS_LEFT_OUT] = {"left_out", {"events", NULL}},
    [EVENTS_LOST] = {"lost", {"events", NULL}},
};

const struct event_member event_line_members[] = {
    {"timestamp", EVENT_TYPE_STRING, false, offsetof(struct event_line, timestamp), NULL},
    {"flow_id", EVENT_TYPE_NUMBER, false, offsetof(struct event_line, flow_id), NULL},
    {"in_iface", EVENT_TYPE_STRING, false, offsetof(struct event_line, in_iface), NULL},
    {"out_iface", EVENT_TYPE_STRING, false, offsetof(struct event_line, out_iface), NULL},
    {"event_type", EVENT_TYPE_STRING, false, offsetof(struct event_line, event_type), NULL},
    {"src_ip", EVENT_TYPE_STRING, false, offsetof(struct event_line, src_ip), NULL},
    {"src_port", EVENT_TYPE_NUMBER, false, offsetof(struct event_line, src_port), NULL},
    {"dest_ip", EVENT_TYPE_STRING, false, offsetof(struct event_line, dest_ip), NULL},
    {"dest_port", EVENT_TYPE_NUMBER, false, offsetof(struct event_line, dest_port), NULL},
    {"proto", EVENT_TYPE_STRING, false, offsetof(struct event_line, proto), NULL},
    {"icmp_type", EVENT_TYPE_NUMBER, false, offsetof(struct event_line, icmp_type), NULL},
    {"icmp_code", EVENT_TYPE_NUMBER, false, offsetof(struct event_line, icmp_code), NULL},
    {"drop", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, drop), event_drop_members},
    {"reject", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, reject), event_reject_members},
    {"accept", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, accept), event_accept_members},
    {"anomaly", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, anomaly),
     event_anomaly_members},
    {"log", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, log), event_log_members},
    {"tls", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, tls), event_tls_members},
    {"quic", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, quic), event_quic_members},
    {"http", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, http), event_http_members},
    {"dns", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, dns), event_dns_members},
    {"twinwall", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, twinwall),
     event_twinwall_members},
    {"packet", EVENT_TYPE_STRING, false, offsetof(struct event_line, packet), NULL},
    {"packet_info", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, packet_info),
     event_packet_info_members},
    {"input", EVENT_TYPE_OBJECT, false, offsetof(struct event_line, input), event_input_members},
    {0},
};

const struct event_member event_headers_members[] = {
    {"len", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, len), NULL},
    {"tos", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tos), NULL},
    {"ttl", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, ttl), NULL},
    {"ipid", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, ipid), NULL},
    {"tc", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tc), NULL},
    {"hoplimit", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, hoplimit), NULL},
    {"flowlbl", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, flowlbl), NULL},
    {"tcpseq", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tcpseq), NULL},
    {"tcpack", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tcpack), NULL},
    {"tcpwin", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tcpwin), NULL},
    {"syn", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, syn), NULL},
    {"ack", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, ack), NULL},
    {"psh", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, psh), NULL},
    {"rst", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, rst), NULL},
    {"urg", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, urg), NULL},
    {"fin", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_headers, fin), NULL},
    {"tcpres", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tcpres), NULL},
    {"tcpurgp", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, tcpurgp), NULL},
    {"udplen", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, udplen), NULL},
    {"icmp_id", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, icmp_id), NULL},
    {"icmp_seq", EVENT_TYPE_NUMBER, false, offsetof(struct event_headers, icmp_seq), NULL},
    {0},
};

const struct event_member event_drop_members[] = {
    {"headers", EVENT_TYPE_MEMBERS, false, offsetof(struct event_drop, headers),
     event_headers_members},
    {"reason", EVENT_TYPE_STRING, false, offsetof(struct event_drop, reason), NULL},
    {0},
};

const struct event_member event_reject_members[] = {
    {"headers", EVENT_TYPE_MEMBERS, false, offsetof(struct event_reject, headers),
     event_headers_members},
    {"reply", EVENT_TYPE_STRING, false, offsetof(struct event_reject, reply), NULL},
    {0},
};

const struct event_member event_accept_members[] = {
    {"headers", EVENT_TYPE_MEMBERS, false, offsetof(struct event_accept, headers),
     event_headers_members},
    {0},
};

const struct event_member event_anomaly_members[] = {
    {"type", EVENT_TYPE_STRING, false, offsetof(struct event_anomaly, type), NULL},
    {"event", EVENT_TYPE_STRING, false, offsetof(struct event_anomaly, event), NULL},
    {0},
};

const struct event_member event_tls_members[] = {
    {"sni", EVENT_TYPE_STRING, false, offsetof(struct event_tls, sni), NULL},
    {"version", EVENT_TYPE_STRING, false, offsetof(struct event_tls, version), NULL},
    {0},
};

const struct event_member event_quic_members[] = {
    {"sni", EVENT_TYPE_STRING, false, offsetof(struct event_quic, sni), NULL},
    {0},
};

const struct event_member event_http_members[] = {
    {"hostname", EVENT_TYPE_STRING, false, offsetof(struct event_http, hostname), NULL},
    {"http_method", EVENT_TYPE_STRING, false, offsetof(struct event_http, http_method), NULL},
    {0},
};

const struct event_member event_dns_members[] = {
    {"type", EVENT_TYPE_STRING, false, offsetof(struct event_dns, type), NULL},
    {"rrname", EVENT_TYPE_STRING, false, offsetof(struct event_dns, rrname), NULL},
    {"rrtype", EVENT_TYPE_STRING, false, offsetof(struct event_dns, rrtype), NULL},
    {0},
};

const struct event_member event_log_members[] = {
    {"action", EVENT_TYPE_STRING, false, offsetof(struct event_log, action), NULL},
    {"prefix", EVENT_TYPE_STRING, false, offsetof(struct event_log, prefix), NULL},
    {"level", EVENT_TYPE_STRING, false, offsetof(struct event_log, level), NULL},
    {"headers", EVENT_TYPE_MEMBERS, false, offsetof(struct event_log, headers),
     event_headers_members},
    {0},
};

const struct event_member event_twinwall_members[] = {
    {"verdict", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, verdict), NULL},
    {"by", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, by), NULL},
    {"rule", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, rule), NULL},
    {"comment", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, comment), NULL},
    {"table", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, table), NULL},
    {"chain", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, chain), NULL},
    {"statement", EVENT_TYPE_NUMBER, false, offsetof(struct event_twinwall, statement), NULL},
    {"hook", EVENT_TYPE_STRING, false, offsetof(struct event_twinwall, hook), NULL},
    {"queue", EVENT_TYPE_NUMBER, false, offsetof(struct event_twinwall, queue), NULL},
    {"generation", EVENT_TYPE_NUMBER, false, offsetof(struct event_twinwall, generation), NULL},
    {"mark", EVENT_TYPE_NUMBER, false, offsetof(struct event_twinwall, mark), NULL},
    {0},
};

const struct event_member event_packet_info_members[] = {
    {"linktype", EVENT_TYPE_NUMBER, false, offsetof(struct event_packet_info, linktype), NULL},
    {0},
};

const struct event_member event_input_members[] = {
    {"length", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, length), NULL},
    {"captured", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, captured), NULL},
    {"ethertype", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, ethertype), NULL},
    {"hook", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, hook), NULL},
    {"iif", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, iif), NULL},
    {"iifname", EVENT_TYPE_STRING, false, offsetof(struct event_input, iifname), NULL},
    {"oif", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, oif), NULL},
    {"oifname", EVENT_TYPE_STRING, false, offsetof(struct event_input, oifname), NULL},
    {"mark", EVENT_TYPE_NUMBER, false, offsetof(struct event_input, mark), NULL},
    {"uid", EVENT_TYPE_NUMBER, true, offsetof(struct event_input, uid), NULL},
    {"gid", EVENT_TYPE_NUMBER, true, offsetof(struct event_input, gid), NULL},
    {"ct_state", EVENT_TYPE_STRING, true, offsetof(struct event_input, ct_state), NULL},
    {"ct_mark", EVENT_TYPE_NUMBER, true, offsetof(struct event_input, ct_mark), NULL},
    {"status", EVENT_TYPE_STRING, false, offsetof(struct event_input, status), NULL},
    {"truncated", EVENT_TYPE_BOOLEAN, false, offsetof(struct event_input, truncated), NULL},
    {0},
};

const struct event_member event_own_line_members[] = {
    {"timestamp", EVENT_TYPE_STRING, false, offsetof(struct event_own_line, timestamp), NULL},
    {"event_type", EVENT_TYPE_STRING, false, offsetof(struct event_own_line, event_type), NULL},
    {"twinwall", EVENT_TYPE_OBJECT, false, offsetof(struct event_own_line, twinwall),
     event_own_members},
    {0},
};

const struct event_member event_own_members[] = {
    {"event", EVENT_TYPE_STRING, false, offsetof(struct event_own, event), NULL},
    {"program", EVENT_TYPE_STRING, false, offsetof(struct event_own, program), NULL},
    {"version", EVENT_TYPE_STRING, false, offsetof(struct event_own, version), NULL},
    {"text", EVENT_TYPE_STRING, false, offsetof(struct event_own, text), NULL},
    {"figures", EVENT_TYPE_FIGURES, false, offsetof(struct event_own, figures), NULL},
    {0},
};
