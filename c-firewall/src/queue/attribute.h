// SPDX-License-Identifier: GPL-2.0-or-later
// Attributes of a packet message, checked before any library parses them.
#ifndef QUEUE_ATTRIBUTE_H
#define QUEUE_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Values of attributes that the callback API has no functions for.
struct queue_extras {
    int64_t cap_len; // value of NFQA_CAP_LEN in host order; -1 if absent
    uint32_t ct_info;
    bool has_ct_mark;
    uint32_t ct_mark;
};

/// Checks those properties of a packet message's attributes that the libraries assume: every header
/// and every value lies within nlmsg_len, a value of fixed size has that size, attributes in
/// NFQA_CT lie within it, and there is an NFQA_PACKET_HDR. Unknown attributes are skipped. Fewer
/// than 4 bytes after the last attribute are malformed, too.
/// - bytes: a message that queue_frame has found complete.
/// - Returns 0, or -EBADMSG with *extras untouched.
int queue_check_attributes(const uint8_t *bytes, struct queue_extras *extras);

/// Parses the mark in the value of an NFQA_CT; 0 without CTA_MARK.
/// - Returns 0, or -EBADMSG with *mark untouched if an attribute in it reaches beyond it, or
///   CTA_MARK is not 4 bytes long.
int queue_conntrack_mark(const uint8_t *value, size_t bytes, uint32_t *mark);

/// Returns true if a value of this length is valid for an attribute's type (without its flag bits).
/// Types of fixed size must have exactly that size, as nfq_nlmsg_parse of libnetfilter_queue 1.0.5
/// requires.
bool queue_attribute_fits(uint16_t type, size_t value_bytes);

#endif
