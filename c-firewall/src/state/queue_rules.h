// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of the kernel that send packets to this firewall's queues, and their effect while no
// process owns the queue. `fwctl queue-rules` reads them, as a child process that may take
// QUEUE_RULES_MS_MAX; therefore the rules are read before any queue is open.
#ifndef STATE_QUEUE_RULES_H
#define STATE_QUEUE_RULES_H

#include <stdbool.h>

#include "options/options.h"

enum {
    QUEUE_RULES_MS_MAX = 10000,
    // Maximum sizes of the texts `unfed` and `unknown` with their final NUL.
    QUEUE_RULES_UNFED_BYTES = OPTION_QUEUES_MAX * sizeof "65535, ",
    QUEUE_RULES_UNKNOWN_BYTES = 64,
};

/// Facts about the rules that send packets to the firewall's queues, as `fwctl queue-rules` prints
/// them.
struct queue_rules {
    // Numbers of the queues that no rule sends packets to, as far as rules could be read: "0, 2-3".
    char unfed[QUEUE_RULES_UNFED_BYTES];
    bool plain; // true if a rule has no bypass: it drops packets while no process owns the queue
    // True if a rule has a bypass: it lets packets pass while no process owns the queue.
    bool bypass;
    // First tool that could not be read, with the reason: "nft is not there"; "" = none.
    char unknown[QUEUE_RULES_UNKNOWN_BYTES];
};

/// Reads the kernel's rules that send packets to this firewall's queues. Never fails: if a tool
/// fails, queue_rules->unknown names it, and the other facts are those of the rules that could be
/// read.
void queue_rules_read(struct queue_rules *queue_rules, const struct options *options);

/// Logs a warning for queues that no rule sends packets to, as far as rules could be read.
void queue_rules_warn(const struct queue_rules *queue_rules);

/// Parses the output of `fwctl queue-rules`.
/// - Returns 0, or -EBADMSG if the text is no such output; queue_rules is unchanged then.
int queue_rules_parse(struct queue_rules *queue_rules, const char *text);

#endif
