// SPDX-License-Identifier: GPL-2.0-or-later
// Metadata of a packet in a capture's comment, as `fwctl record` writes it: `twinwall: verdict=drop
// by=rule rule=web.nft:6 hook=input iif=eth0 mark=0x0 ct=new`. Each field has one space before it,
// and a value without spaces; percent signs and unprintable characters are written as %XX. Unknown
// fields are ignored.
#ifndef EXPLAIN_COMMENT_H
#define EXPLAIN_COMMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/types.h"
#include "packet/verdict.h"

/// Metadata and verdict from the comment of a captured packet. Fields that the comment does not
/// name are unset.
struct comment {
    struct options_facts facts;
    bool has_verdict;
    enum verdict verdict;
};

/// Parses the text of a packet's comment after PCAP_COMMENT_BEGIN.
/// - Returns 0, or -EINVAL if it is damaged, with comment untouched.
int comment_parse(const uint8_t *text, size_t length, struct comment *comment);

#endif
