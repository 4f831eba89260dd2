// SPDX-License-Identifier: GPL-2.0-or-later
// The command line: what its values mean. The text of --help is cli/help.txt, embedded when the
// program is built.
//
// Theory of operation: arguments takes the structure in command-line order and keeps raw values, of
// which the last given wins; --help and --version act when met. Then the values are checked in the
// order of the help text.
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

/// Bytes of the only slot of --profile paper; memory is committed as far as it is touched.
#define OPTIONS_PAPER_SLOT_BYTES (UINT64_C(1) << 32)

/// Request of a valid command line.
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

/// Checks that the options give what the policy reads.
/// - Returns 0, or -EINVAL with failure filled in: --copy-bytes is less than the policy reads, or
///   the policy asks for ct mark and --conntrack mark has none.
int options_require(const struct options *options, const struct requirement *requirement,
                    struct failure *failure);

/// Has as many bytes of a packet copied as a policy reads, unless the command line says how many.
void options_provide(struct options *options, const struct requirement *requirement);

/// Makes the settings of one of the queues.
/// - requirement: of the policy; NULL without one.
struct queue_settings options_queue(const struct options *options,
                                    const struct requirement *requirement, uint16_t number);

/// How the connections of one of the queues are followed.
struct connection_settings options_connections(const struct options *options);

#endif
