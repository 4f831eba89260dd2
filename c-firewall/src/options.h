// SPDX-License-Identifier: GPL-2.0-or-later
// The command line: what its values mean. The text of --help is cli/help.txt, embedded when the
// program is built.
//
// Theory of operation: arguments takes the structure in command-line order and keeps raw values, of
// which the last given wins; --help and --version act when met. Then the values are checked in the
// order of the help text.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "compile.h"
#include "log.h"
#include "policy.h"
#include "queue.h"
#include "verdict.h"

#define OPTIONS_PROGRAM "c-firewall"
#define OPTIONS_VERSION "0.1.0"

enum {
    OPTIONS_QUEUES_MAX = 256,
    OPTIONS_FAIL_BYTES = 96, // of options_fail_text with its final NUL
};

/// What --profile paper allots to its only slot; committed as far as it is touched.
#define OPTIONS_PAPER_SLOT_BYTES (UINT64_C(1) << 32)

enum options_profile { OPTIONS_FAST, OPTIONS_PAPER, OPTIONS_PROFILE_COUNT };

/// What --fail is about.
enum options_situation {
    OPTIONS_OVERLOAD,  // the queue or its socket is full
    OPTIONS_STALL,     // packets wait, and none gets a verdict for --deadline
    OPTIONS_CRASH,     // the firewall ends without being told to
    OPTIONS_MALFORMED, // a packet's headers are none
    OPTIONS_TRUNCATED, // what the policy reads was cut off
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
    bool copy_bytes_given; // on the command line, so a policy that reads more is a failure
    uint32_t batch;
    uint32_t receive_buffer;   // bytes
    bool receive_buffer_given; // on the command line, so a smaller one is a failure
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

/// What to do with a good command line.
enum options_action {
    OPTIONS_ACTION_RUN,
    OPTIONS_ACTION_CHECK,   // options.policy; options.print
    OPTIONS_ACTION_EXPLAIN, // options.policy; options.explain
    OPTIONS_ACTION_HELP,    // print options_help, nothing else
    OPTIONS_ACTION_VERSION, // print "c-firewall 0.1.0"
};

/// The text of --help.
extern const char options_help[];

/// Parses a command line. argv[0] is the program's name and not looked at; the options point into
/// argv.
/// - Returns an enum options_action, options filled in unless it is a text; or -EINVAL with failure
///   filled in and options untouched.
int options_parse(int argc, char **argv, struct options *options, struct failure *failure);

/// Adapts the options to what the policy reads: copy_bytes, unless given.
/// - Returns 0, or -EINVAL with failure filled in: --copy-bytes is less than the policy reads, or
///   the policy asks for ct mark and --conntrack mark has none.
int options_require(struct options *options, const struct requirement *requirement,
                    struct failure *failure);

/// Makes the settings of one of the queues.
/// - requirement: of the policy; NULL without one.
struct queue_settings options_queue(const struct options *options,
                                    const struct requirement *requirement, uint16_t number);

/// The name of a backend, a profile, as on the command line.
const char *options_backend_name(enum queue_kind kind);
const char *options_profile_name(enum options_profile profile);
const char *options_conntrack_name(enum options_conntrack conntrack);
const char *options_situation_name(enum options_situation situation);
const char *options_mode_name(bool open);

/// The modes as --fail takes them: open, closed, or those that are open. Returns text.
const char *options_fail_text(const struct options *options, char text[static OPTIONS_FAIL_BYTES]);

struct given;

/// The values of --default and --malformed, which `explain` takes too.
/// - Returns 0, or -EINVAL with failure filled in.
int options_decision(const struct given *given, struct options *options);

#endif
