// SPDX-License-Identifier: GPL-2.0-or-later
// What a good command line says: the options of all commands.
#ifndef OPTIONS_TYPES_H
#define OPTIONS_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/verdict.h"
#include "policy/policy.h"
#include "queue/queue.h"

enum options_profile { OPTIONS_FAST, OPTIONS_PAPER, OPTIONS_PROFILE_COUNT };

/// What --fail is about.
enum options_situation {
    OPTIONS_OVERLOAD,  // the queue or its socket is full
    OPTIONS_STALL,     // packets wait, and none gets a verdict for --deadline
    OPTIONS_CRASH,     // the firewall ends without being told to
    OPTIONS_MALFORMED, // the packet's headers are invalid
    OPTIONS_TRUNCATED, // bytes that the policy reads were not copied
    OPTIONS_SITUATION_COUNT
};

/// Where ct state comes from.
enum options_conntrack {
    OPTIONS_CONNTRACK_AUTO,
    OPTIONS_CONNTRACK_ATTRIBUTE,
    OPTIONS_CONNTRACK_MARK,
    OPTIONS_CONNTRACK_COUNT
};

/// What `explain` takes a capture's packets for.
struct options_explain {
    const char *capture; // "-" = stdin
    bool has_hook;       // else that of the first base chain
    enum policy_hook hook;
    const char *iif; // "" = none
    const char *oif; // "" = none
    uint32_t mark;
    bool has_uid;
    uint32_t uid;
    bool has_gid;
    uint32_t gid;
    bool has_ct_state;
    uint32_t ct_state; // as POLICY_CT_STATE
    bool has_ct_mark;
    uint32_t ct_mark;
};

struct options {
    uint16_t queue_first;
    uint16_t queue_last;
    bool pin;
    enum queue_kind backend;
    enum options_profile profile;
    uint32_t copy_bytes;
    uint32_t batch;
    uint32_t receive_buffer;   // bytes
    bool receive_buffer_asked; // on the command line, so a smaller one is a failure
    uint32_t queue_length;
    bool gso;
    uint32_t spin_us; // without meaning in the profile paper
    uint32_t coalesce_us;
    const char *policy;           // a path; NULL = none
    enum verdict default_verdict; // VERDICT_ACCEPT or VERDICT_DROP
    bool malformed_by_policy;
    enum options_conntrack conntrack;
    bool fail_open[OPTIONS_SITUATION_COUNT];
    uint32_t deadline_ms; // 0 = none
    uint32_t stats_s;     // 0 = no interval
    bool json;
    const char *metrics; // ADDRESS:PORT or [ADDRESS]:PORT; NULL = none
    const char *events;  // a file, "-" or unix:PATH; NULL = none
    uint32_t events_rate;
    enum log_level log_level;
    const char *control; // a path; NULL = none
    uint32_t control_mode;
    const char *control_owner; // USER or USER:GROUP; NULL = who starts the program
    const char *take_over;     // a path; NULL = from nobody
    const char *user;          // NULL = the default
    bool sandbox;
    bool print;                     // of `check`
    struct options_explain explain; // of `explain`
};

#endif
