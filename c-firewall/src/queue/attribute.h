// SPDX-License-Identifier: GPL-2.0-or-later
// The attributes of a packet's message, looked at before any library sees them.
#ifndef QUEUE_ATTRIBUTE_H
#define QUEUE_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Attributes for which the callback API has no function.
struct queue_extras {
    int64_t cap_len; // NFQA_CAP_LEN in host order, -1 if absent
    uint32_t ct_info;
    bool has_ct_mark;
    uint32_t ct_mark;
};

/// Checks the attributes of a whole packet message, as what the libraries take on trust: every
/// header and every value lies within nlmsg_len, a value of fixed size has that size, what lies in
/// NFQA_CT lies within it, and there is an NFQA_PACKET_HDR. Unknown attributes are skipped. Fewer
/// than 4 bytes after the last attribute are malformed too.
/// - bytes: a message that queue_frame found whole.
/// - Returns 0, or -EBADMSG with *extras untouched.
int queue_check_attributes(const uint8_t *bytes, struct queue_extras *extras);

/// Parses the mark in the value of an NFQA_CT; without CTA_MARK it is 0.
/// - Returns 0, or -EBADMSG with *mark untouched: an attribute in it reaches beyond it, or CTA_MARK
///   is not 4 bytes.
int queue_conntrack_mark(const uint8_t *value, size_t bytes, uint32_t *mark);

/// Whether an attribute of this type (without its flag bits) may have a value of so many bytes:
/// those of fixed size have just that, as nfq_nlmsg_parse of libnetfilter_queue 1.0.5 insists.
bool queue_attribute_fits(uint16_t type, size_t value_bytes);

#endif
