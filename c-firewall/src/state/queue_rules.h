// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of the kernel that send packets to this firewall's queues, and their effect while no
// process owns the queue. They are read from nft and the iptables-save family, as child processes
// that may take QUEUE_RULES_MS_MAX together; therefore this is done before any queue is open.
#ifndef STATE_QUEUE_RULES_H
#define STATE_QUEUE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"

enum {
    QUEUE_RULES_MS_MAX = 10000,
    QUEUE_RULES_UNKNOWN_BYTES = 64, // maximum size of that reason with its final NUL
};

struct queue_rules {
    uint16_t first, last; // first and last queue of this firewall
    // For each queue, from the first one: true if a rule sends packets to it.
    bool reached[OPTION_QUEUES_MAX];
    bool plain; // true if a rule has no bypass: it drops packets while no process owns the queue
    // True if a rule has a bypass: it lets packets pass while no process owns the queue.
    bool bypass;
    bool of_iptables; // true if nft lists rules that it can't express, and iptables-save can
    // First tool that could not be read, with the reason: "nft is not there"; "" = none.
    char unknown[QUEUE_RULES_UNKNOWN_BYTES];
};

/// Reads the rules with all tools. Never fails: missing facts are named in queue_rules->unknown.
void queue_rules_read(struct queue_rules *queue_rules, const struct options *options);

/// Logs a warning for queues that no rule sends packets to, as far as rules could be read.
void queue_rules_warn(const struct queue_rules *queue_rules);

/// Returns an empty set of rules for these queues.
void queue_rules_begin(struct queue_rules *queue_rules, uint16_t first, uint16_t last);

/// Parses the output of iptables-save.
void queue_rules_take_save(struct queue_rules *queue_rules, const char *text);

/// Parses the output of `nft -j list ruleset`.
/// - Returns 0, or -EBADMSG if the text is no such output; queue_rules is unchanged then.
int queue_rules_take_nft(struct queue_rules *queue_rules, const char *text);

#endif
