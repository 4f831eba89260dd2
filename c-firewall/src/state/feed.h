// SPDX-License-Identifier: GPL-2.0-or-later
// Which rules of the kernel lead packets to our queues, and what they do when no one owns one. Asks
// nft and the iptables-save family, as child processes that may take FEED_MS_MAX together: so
// before any queue is open.
#ifndef STATE_FEED_H
#define STATE_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "options/options.h"

enum {
    FEED_MS_MAX = 3000,
    FEED_UNKNOWN_BYTES = 64, // of why not all is known, with its final NUL
};

struct feed {
    uint16_t first, last;             // our queues
    bool fed[OPTIONS_QUEUES_MAX];     // by queue, from the first: a rule leads packets there
    bool plain;                       // some rule has no bypass: without an owner it drops
    bool bypass;                      // some rule has one: without an owner packets pass it
    char unknown[FEED_UNKNOWN_BYTES]; // what could not be asked: "nft is not there"; "" = all was
};

/// Asks all tools. Never fails: what can't be known is told in feed->unknown.
void feed_read(struct feed *feed, const struct options *options);

/// Warns of our queues that no rule leads to, if all tools could be asked.
void feed_warn(const struct feed *feed);

/// Makes a feed of nobody's rules, for our queues.
void feed_begin(struct feed *feed, uint16_t first, uint16_t last);

/// Takes the rules out of the output of iptables-save.
void feed_take_save(struct feed *feed, const char *text);

/// Takes the rules out of the output of `nft -j list ruleset`.
/// - Returns 0, or -EBADMSG for a text that is none, feed untouched.
int feed_take_nft(struct feed *feed, const char *text);

#endif
