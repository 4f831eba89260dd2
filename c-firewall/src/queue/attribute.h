// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a packet message's netlink attributes, made before any library parses them.
#ifndef QUEUE_ATTRIBUTE_H
#define QUEUE_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Values that libnetfilter_queue's callback API has no functions to read. queue_check_attributes
/// fills them in.
struct queue_extras {
    // Value of NFQA_CAP_LEN (the packet's original length in bytes) in host order; -1 if absent.
    int64_t cap_len;
    uint32_t ct_info;
    bool has_ct_mark;
    uint32_t ct_mark;
};

/// Checks that a packet message has the properties that the libraries assume: every attribute
/// header and value lies within nlmsg_len; a value of fixed size has that size; nested attributes
/// of NFQA_CT lie within its value; there is an NFQA_PACKET_HDR. Unknown attributes are skipped. 1
/// to 3 bytes after the last attribute are malformed, too.
/// - bytes: message that queue_frame has found complete.
/// - extras: out: the values that the callback API has no functions to read.
/// - Returns 0, or -EBADMSG with *extras untouched.
int queue_check_attributes(const uint8_t *bytes, struct queue_extras *extras);

/// Parses the connection's mark in the value of an NFQA_CT. The mark is 0 if there is no CTA_MARK.
/// - mark: out: the mark.
/// - Returns 0, or -EBADMSG with *mark untouched if the length of a nested attribute is invalid, or
///   CTA_MARK is not 4 bytes long.
int queue_conntrack_mark(const uint8_t *value, size_t bytes, uint32_t *mark);

/// Returns true if the length of a value is valid for an attribute's type (without its flag bits).
/// A value of fixed size must have exactly that size, as nfq_nlmsg_parse of libnetfilter_queue
/// 1.0.5 requires.
bool queue_attribute_fits(uint16_t type, size_t value_bytes);

#endif
