// SPDX-License-Identifier: GPL-2.0-or-later
// The options of all commands, as a valid command line gives them.
#ifndef OPTIONS_TYPES_H
#define OPTIONS_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/verdict.h"
#include "policy/policy.h"
#include "queue/queue.h"

/// Facts that `explain` assumes for a capture's packets.
/// Metadata of a captured packet, besides its bytes.
struct options_facts {
    bool has_hook; // whether a hook was given; without it that of the first base chain
    enum policy_hook hook;
    char iif[OPTION_INTERFACE_BYTES_MAX + 1]; // "" = none
    char oif[OPTION_INTERFACE_BYTES_MAX + 1]; // "" = none
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

/// Arguments of `explain`.
struct options_explain {
    const char *capture;        // "-" = stdin
    bool expect;                // verdicts are to be those that were recorded
    struct options_facts facts; // metadata of packets that the capture says nothing about
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
    bool copy_bytes_asked;     // likewise, so a policy that reads more is a failure
    uint32_t queue_length;
    bool gso;
    uint32_t spin_us; // without meaning in the profile paper
    uint32_t coalesce_us;
    const char *policy;           // a path; NULL = none
    enum verdict default_verdict; // VERDICT_ACCEPT or VERDICT_DROP
    bool malformed_by_policy;
    enum options_conntrack conntrack;
    enum verdict undecided_verdict; // VERDICT_ACCEPT or VERDICT_DROP
    uint32_t undecided_bytes;       // with accept: each way; beyond, a name can't be read
    uint32_t connections;           // that a worker follows
    uint32_t hello_memory;          // bytes, of a worker
    uint32_t hello_timeout_s;
    uint32_t learned; // addresses
    uint32_t stage;   // bits of marks in which classes are told; 0 = the policy decides
    uint32_t settled; // bits of marks that rules set only where names are final
    bool fail_open[OPTIONS_SITUATION_COUNT];
    uint32_t deadline_ms; // 0 = none
    uint32_t stats_s;     // 0 = no interval
    bool json;
    const char *events; // a file, "-" or unix:PATH; NULL = none
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
