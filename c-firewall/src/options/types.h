// SPDX-License-Identifier: GPL-2.0-or-later
// Options of all commands, from a valid command line.
#ifndef OPTIONS_TYPES_H
#define OPTIONS_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "packet/verdict.h"
#include "policy/policy.h"
#include "queue/queue.h"

/// Metadata of a captured packet.
struct options_facts {
    // True if --hook or the packet's comment names the hook; otherwise the hook of the first base
    // chain applies.
    bool has_hook;
    enum policy_hook hook;
    // Name of the interface at which the packet arrived, from --iif or the packet's comment; "" =
    // none.
    char iif[OPTION_INTERFACE_BYTES_MAX + 1];
    // Name of the interface by which the packet leaves, from --oif or the packet's comment; "" =
    // none.
    char oif[OPTION_INTERFACE_BYTES_MAX + 1];
    uint32_t mark;
    bool has_uid;
    uint32_t uid;
    bool has_gid;
    uint32_t gid;
    bool has_ct_state;
    uint32_t ct_state; // connection state, as bits of POLICY_CT_STATE
    bool has_ct_mark;
    uint32_t ct_mark;
};

/// Arguments of `explain`.
struct options_explain {
    const char *capture;        // path of the capture; "-" = stdin
    bool expect;                // true if verdicts must equal the recorded verdicts (--expect)
    struct options_facts facts; // metadata of packets without a valid comment in the capture
};

struct options {
    uint16_t queue_first;
    uint16_t queue_last;
    bool pin;
    enum queue_kind backend;
    enum options_profile profile;
    uint32_t copy_bytes;
    uint32_t batch;
    // Size of the receive buffer of a queue's socket in bytes; 0 = the kernel's default.
    uint32_t receive_buffer;
    // True if the command line sets the receive buffer: then it is a failure if the kernel gives
    // less.
    bool receive_buffer_asked;
    // True if the command line sets copy_bytes: then it is a failure if the policy needs more.
    bool copy_bytes_asked;
    uint32_t queue_length;
    bool gso;
    // Maximum time for which a worker checks for further packets before it sleeps, in microseconds
    // (--spin). Ignored in the profile paper.
    uint32_t spin_us;
    uint32_t coalesce_us;
    const char *policy; // path of the policy; NULL = no policy
    // Verdict for well-formed packets that no chain of a policy sees: VERDICT_ACCEPT or
    // VERDICT_DROP.
    enum verdict default_verdict;
    bool malformed_by_policy;
    enum options_conntrack conntrack;
    // Verdict for packets at a rule that reads an undecided name (--undecided): VERDICT_ACCEPT or
    // VERDICT_DROP. VERDICT_ACCEPT applies only if the rules may accept the packet.
    enum verdict undecided_verdict;
    // Maximum number of data bytes in each direction while the name of a connection is undecided;
    // after these the name is unreadable.
    uint32_t undecided_bytes;
    uint32_t connections;  // maximum number of connections that a worker follows at a time
    uint32_t hello_memory; // memory of a worker for incomplete messages with names, in bytes
    uint32_t hello_timeout_s;
    uint32_t learned; // maximum number of learned addresses at a time, in all sets together
    // Bits of the mark for classes (--stage); 0 = no classes, the policy's verdict is final.
    uint32_t stage;
    uint32_t settled; // bits of the mark that rules set only if the names are final (--settled)
    bool fail_open[OPTIONS_SITUATION_COUNT];
    // Time without a verdict, while packets wait, after which the guard answers them, in
    // milliseconds; 0 = never.
    uint32_t deadline_ms;
    uint32_t stats_s; // interval of printed ledgers in seconds; 0 = only on SIGUSR1 and at exit
    bool json;
    // Destination of events: a file, "-" (stdout) or unix:PATH; NULL = no events.
    const char *events;
    uint32_t events_rate;
    enum log_level log_level;
    const char *control; // path of the control socket; NULL = no socket
    uint32_t control_mode;
    // Owner of the control socket, USER or USER:GROUP; NULL = the user that starts the program.
    const char *control_owner;
    const char *take_over; // path of the old firewall's control socket; NULL = no upgrade
    const char *user;      // user to become if root starts the program; NULL = the user twinwall
    bool sandbox;
    bool print;                     // true if `check` prints the policy
    struct options_explain explain; // arguments of `explain`
};

#endif
