// SPDX-License-Identifier: GPL-2.0-or-later
// What a capture's comment tells of a packet, as `fwctl record` writes it: `twinwall: verdict=drop
// by=rule rule=web.nft:6 hook=input iif=eth0 mark=0x0 ct=new`. Fields have one space before them
// and a value without spaces; percent signs and what is not printed stand in it as %XX. Fields that
// are not known are left alone.
#ifndef EXPLAIN_COMMENT_H
#define EXPLAIN_COMMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/types.h"
#include "packet/verdict.h"

/// Parsed comment. The packet lacks fields that the comment does not name.
struct comment {
    struct options_facts facts;
    bool has_verdict;
    enum verdict verdict;
};

/// Reads a comment, from behind PCAP_COMMENT_BEGIN on.
/// - Returns 0, or -EINVAL if it is damaged, with comment untouched.
int comment_read(const uint8_t *text, size_t length, struct comment *comment);

#endif
