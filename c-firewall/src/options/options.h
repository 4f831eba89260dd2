// SPDX-License-Identifier: GPL-2.0-or-later
// Values of the command line. The text of --help is cli/help.txt, embedded when the program is
// built.
//
// Theory of operation: arguments parses the syntax in command-line order and stores raw values; of
// an option that is given several times, the last value applies; --help and --version take effect
// at once. Then the values are checked in the order of the help text.
#ifndef OPTIONS_OPTIONS_H
#define OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "connection/types.h"
#include "engine/compile.h"
#include "options/types.h"
#include "queue/queue.h"

#define OPTIONS_PROGRAM "c-firewall"
#define OPTIONS_VERSION "0.1.0"

/// Size of the receive slot with --profile paper, in bytes. There is one slot, for one netlink
/// message. Memory is allocated only for the pages that are used.
#define OPTIONS_PAPER_SLOT_BYTES (UINT64_C(1) << 32)

/// Action that a valid command line requests.
enum options_action {
    OPTIONS_ACTION_RUN,
    OPTIONS_ACTION_CHECK, // command `check`; options.policy and options.print are set
    // Command `explain`; policy, explain, json and the values of --default, --malformed,
    // --undecided and --fail are set.
    OPTIONS_ACTION_EXPLAIN,
    OPTIONS_ACTION_HELP,    // request to print options_help
    OPTIONS_ACTION_VERSION, // request to print "c-firewall 0.1.0"
};

/// Text of --help.
extern const char options_help[];

/// Parses a command line. argv[0], the program's name, is ignored; the options point into argv.
/// - Returns an enum options_action, with options filled in unless it is a request for a text; or
///   -EINVAL with failure filled in and options untouched.
int options_parse(int argc, char **argv, struct options *options, struct failure *failure);

/// Checks that the options provide the packet data that the policy needs.
/// - Returns 0, or -EINVAL with failure filled in: --copy-bytes is given and too small, or the
///   policy uses ct mark, which --conntrack mark does not provide.
int options_require(const struct options *options, const struct requirement *requirement,
                    struct failure *failure);

/// Raises copy_bytes to the number of bytes that the policy needs, unless the command line sets it.
void options_provide(struct options *options, const struct requirement *requirement);

/// Returns the settings of a queue.
/// - requirement: requirement of the policy; NULL without a policy.
struct queue_settings options_queue(const struct options *options,
                                    const struct requirement *requirement, uint16_t number);

/// Returns the settings for following the connections of a queue.
struct connection_settings options_connections(const struct options *options);

#endif
