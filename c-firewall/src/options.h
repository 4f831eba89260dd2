// SPDX-License-Identifier: GPL-2.0-or-later
// The command line. The text of --help is cli/help.txt, embedded when the program is built.
//
// Theory of operation: phase 1 takes the structure in command-line order and keeps raw values, of
// which the last given wins; --help and --version act when met. Phase 2 checks the values in the
// order of the help text.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "queue.h"
#include "verdict.h"

#define OPTIONS_PROGRAM "c-firewall"
#define OPTIONS_VERSION "0.1.0"

enum {
    OPTIONS_QUEUES_MAX = 256,
    OPTIONS_QUOTE_BYTES = 64, // of a value that an error message shows; then comes "..."
};

/// What --profile paper allots to its only slot; committed as far as it is touched.
#define OPTIONS_PAPER_SLOT_BYTES (UINT64_C(1) << 32)

enum options_profile { OPTIONS_FAST, OPTIONS_PAPER, OPTIONS_PROFILE_COUNT };

struct options {
    uint16_t queue_first;
    uint16_t queue_last;
    bool pin;
    enum queue_kind backend;
    enum options_profile profile;
    uint32_t copy_bytes;
    uint32_t batch;
    uint32_t receive_buffer;   // bytes
    bool receive_buffer_given; // on the command line, so a smaller one is a failure
    uint32_t queue_length;
    bool gso;
    uint32_t spin_us; // without meaning in the profile paper
    uint32_t coalesce_us;
    enum verdict default_verdict; // VERDICT_ACCEPT or VERDICT_DROP
    bool fail_open;
    uint32_t stats_s; // 0 = no interval
    bool json;
};

/// What to do with a good command line.
enum options_action {
    OPTIONS_ACTION_RUN,
    OPTIONS_ACTION_HELP,    // print options_help, nothing else
    OPTIONS_ACTION_VERSION, // print "c-firewall 0.1.0"
};

/// The text of --help.
extern const char options_help[];

/// Parses a command line. argv[0] is the program's name and not looked at.
/// - Returns an enum options_action, options filled in for OPTIONS_ACTION_RUN; or -EINVAL with
///   failure filled in and options untouched.
int options_parse(int argc, char **argv, struct options *options, struct failure *failure);

/// Makes the settings of one of the queues.
struct queue_settings options_queue(const struct options *options, uint16_t number);

/// The name of a backend, a profile, as on the command line.
const char *options_backend_name(enum queue_kind kind);
const char *options_profile_name(enum options_profile profile);

#endif
