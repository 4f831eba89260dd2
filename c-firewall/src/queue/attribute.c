// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/attribute.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <string.h>

#include "queue/types.h"

/// Required length of an attribute's value in bytes, by the attribute's type; 0 = any length. All
/// backends require the lengths that nfq_nlmsg_parse requires, also for NFQA_SECCTX: that string
/// counts as a number in the library, and the firewall never requests it.
static const uint8_t attribute_bytes[] = {
    [NFQA_PACKET_HDR] = sizeof(struct nfqnl_msg_packet_hdr),
    [NFQA_MARK] = sizeof(uint32_t),
    [NFQA_TIMESTAMP] = sizeof(struct nfqnl_msg_packet_timestamp),
    [NFQA_IFINDEX_INDEV] = sizeof(uint32_t),
    [NFQA_IFINDEX_OUTDEV] = sizeof(uint32_t),
    [NFQA_IFINDEX_PHYSINDEV] = sizeof(uint32_t),
    [NFQA_IFINDEX_PHYSOUTDEV] = sizeof(uint32_t),
    [NFQA_HWADDR] = sizeof(struct nfqnl_msg_packet_hw),
    [NFQA_CT_INFO] = sizeof(uint32_t),
    [NFQA_CAP_LEN] = sizeof(uint32_t),
    [NFQA_SKB_INFO] = sizeof(uint32_t),
    [NFQA_UID] = sizeof(uint32_t),
    [NFQA_GID] = sizeof(uint32_t),
    [NFQA_SECCTX] = sizeof(uint32_t),
};

bool queue_attribute_fits(uint16_t type, size_t value_bytes) {
    if (type >= sizeof attribute_bytes || attribute_bytes[type] == 0)
        return true;
    return value_bytes == attribute_bytes[type];
}

static uint32_t be32_at(const uint8_t *bytes) {
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

int queue_conntrack_mark(const uint8_t *value, size_t bytes, uint32_t *mark) {
    uint32_t found = 0;

    for (size_t offset = 0; offset < bytes;) {
        struct nlattr attribute;

        if (bytes - offset < NLA_HDRLEN)
            return -EBADMSG;
        memcpy(&attribute, value + offset, sizeof attribute);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > bytes - offset)
            return -EBADMSG;
        if ((attribute.nla_type & NLA_TYPE_MASK) == CTA_MARK) {
            if (attribute.nla_len != NLA_HDRLEN + sizeof found)
                return -EBADMSG;
            found = be32_at(value + offset + NLA_HDRLEN);
        }
        offset += NLA_ALIGN(attribute.nla_len); // after the end if the last attribute is unpadded
    }
    *mark = found;
    return 0;
}

/// Parses an attribute of valid length for which the callback API has no function; ignores other
/// attributes. Returns 0, or -EBADMSG if an NFQA_CT is malformed.
static int take_extra(uint16_t type, const uint8_t *value, size_t bytes,
                      struct queue_extras *extras) {
    switch (type) {
    case NFQA_CAP_LEN:
        extras->cap_len = be32_at(value);
        return 0;
    case NFQA_CT_INFO:
        extras->ct_info = be32_at(value);
        return 0;
    case NFQA_CT:
        extras->has_ct_mark = true;
        return queue_conntrack_mark(value, bytes, &extras->ct_mark);
    default:
        return 0;
    }
}

int queue_check_attributes(const uint8_t *bytes, struct queue_extras *extras) {
    struct nlmsghdr header;
    struct queue_extras found = {.cap_len = -1, .ct_info = QUEUE_UNKNOWN};
    size_t offset = QUEUE_MESSAGE_BYTES;
    bool has_packet_hdr = false;

    memcpy(&header, bytes, sizeof header);
    while (offset < header.nlmsg_len) {
        struct nlattr attribute;
        uint16_t type;

        if (header.nlmsg_len - offset < NLA_HDRLEN)
            return -EBADMSG;
        memcpy(&attribute, bytes + offset, sizeof attribute);
        type = attribute.nla_type & NLA_TYPE_MASK;
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > header.nlmsg_len - offset ||
            !queue_attribute_fits(type, attribute.nla_len - NLA_HDRLEN) ||
            take_extra(type, bytes + offset + NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN, &found) <
                0)
            return -EBADMSG;
        has_packet_hdr = has_packet_hdr || type == NFQA_PACKET_HDR;
        offset += NLA_ALIGN(attribute.nla_len); // after nlmsg_len if the last attribute is unpadded
    }
    if (!has_packet_hdr)
        return -EBADMSG;
    *extras = found;
    return 0;
}
