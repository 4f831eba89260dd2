// SPDX-License-Identifier: GPL-2.0-or-later
// Which rules of the kernel lead packets to our queues, and what they do while no one owns the
// queue. Asks nft and the iptables-save family, as child processes that may take QUEUE_RULES_MS_MAX
// together; so it is done before any queue is open.
#ifndef STATE_QUEUE_RULES_H
#define STATE_QUEUE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"

enum {
    QUEUE_RULES_MS_MAX = 3000,
    QUEUE_RULES_UNKNOWN_BYTES = 64, // of why not all is known, with its final NUL
};

struct queue_rules {
    uint16_t first, last;                    // our queues
    bool reached[OPTION_QUEUES_MAX];         // by queue, from the first: a rule leads packets there
    bool plain;                              // some rule has no bypass: without an owner it drops
    bool bypass;                             // some rule has one: without an owner packets pass it
    bool of_iptables;                        // nft lists rules whose words iptables-save has
    char unknown[QUEUE_RULES_UNKNOWN_BYTES]; // what could not be asked: "nft is not there"; "" =
                                             // all was
};

/// Asks all tools. Never fails: what can't be known is told in queue_rules->unknown.
void queue_rules_read(struct queue_rules *queue_rules, const struct options *options);

/// Warns of our queues that no rule leads to, or none as far as could be asked.
void queue_rules_warn(const struct queue_rules *queue_rules);

/// Begins with no rules, for our queues.
void queue_rules_begin(struct queue_rules *queue_rules, uint16_t first, uint16_t last);

/// Parses the rules in the output of iptables-save.
void queue_rules_take_save(struct queue_rules *queue_rules, const char *text);

/// Parses the rules in the output of `nft -j list ruleset`.
/// - Returns 0, or -EBADMSG for a text that is not such output, queue_rules untouched.
int queue_rules_take_nft(struct queue_rules *queue_rules, const char *text);

#endif
