// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/frame.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <string.h>

enum {
    PACKET_TYPE = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET,
    PACKET_HDR_BYTES = sizeof(struct nfqnl_msg_packet_hdr),
};
static_assert(sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg) == QUEUE_MESSAGE_BYTES,
              "a message begins with 20 bytes");
static_assert(PACKET_HDR_BYTES == 7, "id, ethertype, hook");
static_assert(sizeof(struct nlmsgerr) == 20, "an errno and the header of the request");

static struct nlmsghdr header_of(const uint8_t *bytes) {
    struct nlmsghdr header;

    memcpy(&header, bytes, sizeof header);
    return header;
}

/// Returns the result of a complete NLMSG_ERROR: an acknowledgement (QUEUE_PARSED_IGNORED), or the
/// -errno of a refusal. Returns QUEUE_PARSED_MALFORMED if the message is too short.
static int frame_error(const uint8_t *bytes, uint32_t nlmsg_len) {
    struct nlmsgerr error;

    if (nlmsg_len < NLMSG_LENGTH(sizeof error))
        return QUEUE_PARSED_MALFORMED;
    memcpy(&error, bytes + NLMSG_HDRLEN, sizeof error);
    if (error.error == 0)
        return QUEUE_PARSED_IGNORED;
    return error.error < 0 ? error.error : -error.error;
}

int queue_truncated(const uint8_t *bytes, size_t received, struct queue_packet *packet) {
    const size_t needed = QUEUE_MESSAGE_BYTES + NLA_HDRLEN + PACKET_HDR_BYTES;
    struct nfqnl_msg_packet_hdr packet_hdr;
    struct nlattr attribute;

    if (received < needed || header_of(bytes).nlmsg_len < needed ||
        header_of(bytes).nlmsg_type != PACKET_TYPE)
        return QUEUE_PARSED_MALFORMED;
    memcpy(&attribute, bytes + QUEUE_MESSAGE_BYTES, sizeof attribute);
    if ((attribute.nla_type & NLA_TYPE_MASK) != NFQA_PACKET_HDR ||
        attribute.nla_len != NLA_HDRLEN + PACKET_HDR_BYTES)
        return QUEUE_PARSED_MALFORMED;
    memcpy(&packet_hdr, bytes + QUEUE_MESSAGE_BYTES + NLA_HDRLEN, sizeof packet_hdr);
    *packet = (struct queue_packet){
        .id = ntohl(packet_hdr.packet_id),
        .ethertype = ntohs(packet_hdr.hw_protocol),
        .hook = packet_hdr.hook,
        .truncated = true,
        .uid = QUEUE_UNKNOWN,
        .gid = QUEUE_UNKNOWN,
        .ct_info = QUEUE_UNKNOWN,
    };
    return QUEUE_PARSED_PACKET;
}

int queue_frame(const uint8_t *bytes, size_t received, struct queue_packet *packet) {
    struct nlmsghdr header;

    packet->truncated = false;
    if (received < QUEUE_MESSAGE_BYTES)
        return QUEUE_PARSED_MALFORMED;
    header = header_of(bytes);
    if (header.nlmsg_len < QUEUE_MESSAGE_BYTES)
        return QUEUE_PARSED_MALFORMED;
    if (header.nlmsg_len > received)
        return queue_truncated(bytes, received, packet);
    if (header.nlmsg_type == NLMSG_ERROR)
        return frame_error(bytes, header.nlmsg_len);
    return header.nlmsg_type == PACKET_TYPE ? QUEUE_PARSED_PACKET : QUEUE_PARSED_IGNORED;
}

bool queue_is_vacant(const uint8_t *bytes, size_t received) {
    const size_t needed = NLMSG_LENGTH(sizeof(struct nlmsgerr));
    struct nlmsghdr header;

    if (received < needed)
        return false;
    header = header_of(bytes);
    return header.nlmsg_type == NLMSG_ERROR && header.nlmsg_seq == QUEUE_GAP_SEQUENCE &&
           header.nlmsg_len >= needed && header.nlmsg_len <= received &&
           frame_error(bytes, header.nlmsg_len) == -ENOENT;
}

bool queue_tells_of_packet(const uint8_t *bytes) {
    return header_of(bytes).nlmsg_type == PACKET_TYPE;
}

int queue_await_ack(struct queue *queue) {
    const int count = queue_socket_receive(&queue->socket, true);

    if (count == -ENOBUFS) {
        // Only packets can have filled the buffer, and they arrive only after the kernel has
        // executed QUEUE_MODE.
        queue->pending_overruns++;
        return 0;
    }
    if (count <= 0)
        return count == 0 ? -ETIMEDOUT : count;

    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        const struct queue_message message = queue_socket_message(&queue->socket, i);
        struct queue_packet packet;
        const int parsed = queue_frame(message.bytes, message.received, &packet);

        if (parsed == QUEUE_PARSED_PACKET || parsed == QUEUE_PARSED_MALFORMED)
            queue->pending = (uint32_t)count;
        if (parsed < 0)
            return parsed;
    }
    return 0;
}
