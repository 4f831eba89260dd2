// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
#include "queue/raw.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "queue/attribute.h"
#include "queue/frame.h"

static_assert(sizeof(struct nfqnl_msg_verdict_hdr) == 8, "verdict, id");
static_assert(QUEUE_MESSAGE_BYTES + (NLA_HDRLEN + 8) + (NLA_HDRLEN + 4) == QUEUE_VERDICT_BYTES,
              "headers, NFQA_VERDICT_HDR, NFQA_MARK");

static uint32_t be32_at(const uint8_t *bytes) {
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

/// Parses an attribute whose length queue_attribute_fits has accepted. Returns 0, or -EBADMSG if an
/// NFQA_CT is malformed.
static int take_attribute(uint16_t type, const uint8_t *value, uint32_t value_bytes,
                          struct queue_packet *packet) {
    struct nfqnl_msg_packet_hdr packet_hdr;

    switch (type) {
    case NFQA_PACKET_HDR:
        memcpy(&packet_hdr, value, sizeof packet_hdr);
        packet->id = ntohl(packet_hdr.packet_id);
        packet->ethertype = ntohs(packet_hdr.hw_protocol);
        packet->hook = packet_hdr.hook;
        break;
    case NFQA_MARK:
        packet->mark = be32_at(value);
        break;
    case NFQA_IFINDEX_INDEV:
        packet->indev = be32_at(value);
        break;
    case NFQA_IFINDEX_OUTDEV:
        packet->outdev = be32_at(value);
        break;
    case NFQA_PAYLOAD:
        packet->payload = value;
        packet->payload_bytes = value_bytes;
        break;
    case NFQA_CAP_LEN:
        packet->original_bytes = be32_at(value);
        break;
    case NFQA_SKB_INFO:
        packet->skb_info = be32_at(value);
        break;
    case NFQA_UID:
        packet->uid = be32_at(value);
        break;
    case NFQA_GID:
        packet->gid = be32_at(value);
        break;
    case NFQA_CT_INFO:
        packet->ct_info = be32_at(value);
        break;
    case NFQA_CT:
        packet->has_ct_mark = true;
        return queue_conntrack_mark(value, value_bytes, &packet->ct_mark);
    default:
        break;
    }
    return 0;
}

int queue_raw_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet) {
    const int framed = queue_frame(bytes, received, packet);
    size_t offset = QUEUE_MESSAGE_BYTES;
    struct nlmsghdr header;
    uint64_t seen = 0; // one bit for each attribute type below 64

    if (framed != QUEUE_PARSED_PACKET || packet->truncated)
        return framed;
    memcpy(&header, bytes, sizeof header);
    *packet =
        (struct queue_packet){.uid = QUEUE_UNKNOWN, .gid = QUEUE_UNKNOWN, .ct_info = QUEUE_UNKNOWN};
    while (offset < header.nlmsg_len) {
        const size_t left = header.nlmsg_len - offset;
        struct nlattr attribute;
        uint32_t value_bytes;
        uint16_t type;

        if (left < NLA_HDRLEN)
            return QUEUE_PARSED_MALFORMED;
        memcpy(&attribute, bytes + offset, sizeof attribute);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > left)
            return QUEUE_PARSED_MALFORMED;
        type = attribute.nla_type & NLA_TYPE_MASK;
        value_bytes = attribute.nla_len - NLA_HDRLEN;
        if (!queue_attribute_fits(type, value_bytes) ||
            take_attribute(type, bytes + offset + NLA_HDRLEN, value_bytes, packet) < 0)
            return QUEUE_PARSED_MALFORMED;
        if (type < 64)
            seen |= UINT64_C(1) << type;
        offset += NLA_ALIGN(attribute.nla_len); // after the end if the last attribute is unpadded
    }
    if (!(seen & UINT64_C(1) << NFQA_PACKET_HDR))
        return QUEUE_PARSED_MALFORMED;
    if (!(seen & UINT64_C(1) << NFQA_CAP_LEN))
        packet->original_bytes = packet->payload_bytes;
    return QUEUE_PARSED_PACKET;
}

/// Writes the headers of a message without the length, which queue_raw_end_message sets. Returns
/// the position after the headers.
static uint8_t *begin_message(uint8_t *at, uint16_t type, uint16_t flags, uint32_t sequence,
                              uint16_t number) {
    const struct nlmsghdr header = {
        .nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | type),
        .nlmsg_flags = flags,
        .nlmsg_seq = sequence,
    };
    const struct nfgenmsg message = {
        .nfgen_family = AF_UNSPEC,
        .version = NFNETLINK_V0,
        .res_id = htons(number),
    };

    memcpy(at, &header, sizeof header);
    memcpy(at + sizeof header, &message, sizeof message);
    return at + QUEUE_MESSAGE_BYTES;
}

void queue_raw_end_message(uint8_t *begin, const uint8_t *end) {
    const uint32_t nlmsg_len = (uint32_t)(end - begin);

    memcpy(begin + offsetof(struct nlmsghdr, nlmsg_len), &nlmsg_len, sizeof nlmsg_len);
}

uint8_t *queue_raw_put_attribute(uint8_t *at, uint16_t type, const void *value,
                                 uint16_t value_bytes) {
    const struct nlattr attribute = {
        .nla_len = (uint16_t)(NLA_HDRLEN + value_bytes),
        .nla_type = type,
    };
    const size_t padded = NLA_ALIGN(attribute.nla_len);

    memcpy(at, &attribute, sizeof attribute);
    memcpy(at + NLA_HDRLEN, value, value_bytes);
    memset(at + attribute.nla_len, 0, padded - attribute.nla_len);
    return at + padded;
}

static uint8_t *put_be32(uint8_t *at, uint16_t type, uint32_t value) {
    const uint32_t wire = htonl(value);

    return queue_raw_put_attribute(at, type, &wire, sizeof wire);
}

size_t queue_raw_build_verdicts(uint16_t number, const struct verdict_run *runs, size_t count,
                                uint8_t *buffer) {
    uint8_t *at = buffer;

    for (size_t i = 0; i < count; i++) {
        const struct verdict_run *run = &runs[i];
        const bool batch = run->gap || run->count > 1;
        const struct nfqnl_msg_verdict_hdr verdict = {
            .verdict = htonl(run->kernel),
            .id = htonl(run->last_id),
        };
        uint8_t *begin = at;

        at = begin_message(at, batch ? NFQNL_MSG_VERDICT_BATCH : NFQNL_MSG_VERDICT, NLM_F_REQUEST,
                           run->gap ? QUEUE_GAP_SEQUENCE : 0, number);
        at = queue_raw_put_attribute(at, NFQA_VERDICT_HDR, &verdict, sizeof verdict);
        if (run->has_mark)
            at = put_be32(at, NFQA_MARK, run->mark);
        queue_raw_end_message(begin, at);
    }
    return (size_t)(at - buffer);
}

static uint8_t *put_command(uint8_t *at, uint8_t command) {
    const struct nfqnl_msg_config_cmd value = {.command = command};

    return queue_raw_put_attribute(at, NFQA_CFG_CMD, &value, sizeof value);
}

static uint8_t *put_mode(uint8_t *at, uint32_t copy_bytes) {
    const struct nfqnl_msg_config_params value = {
        .copy_range = htonl(copy_bytes),
        .copy_mode = copy_bytes > 0 ? NFQNL_COPY_PACKET : NFQNL_COPY_META,
    };

    return queue_raw_put_attribute(at, NFQA_CFG_PARAMS, &value, sizeof value);
}

size_t queue_raw_build_request(const struct queue_settings *settings, uint32_t flags,
                               enum queue_request request, bool acknowledged, uint8_t *buffer) {
    const uint16_t ack = acknowledged ? NLM_F_ACK : 0;
    uint8_t *at = begin_message(buffer, NFQNL_MSG_CONFIG, NLM_F_REQUEST | ack, 0, settings->number);

    switch (request) {
    case QUEUE_BIND:
        at = put_command(at, NFQNL_CFG_CMD_BIND);
        break;
    case QUEUE_LENGTH:
        at = put_be32(at, NFQA_CFG_QUEUE_MAXLEN, settings->queue_length);
        break;
    case QUEUE_FLAGS:
        at = put_be32(at, NFQA_CFG_FLAGS, flags);
        at = put_be32(at, NFQA_CFG_MASK, QUEUE_FLAGS_ALL);
        break;
    case QUEUE_MODE:
        at = put_mode(at, settings->copy_bytes);
        break;
    case QUEUE_UNBIND:
        at = put_command(at, NFQNL_CFG_CMD_UNBIND);
        break;
    }
    queue_raw_end_message(buffer, at);
    return (size_t)(at - buffer);
}

static int take_portid(struct queue *queue) {
    struct sockaddr_nl address = {0};
    socklen_t length = sizeof address;

    if (getsockname(queue->socket.fd, (struct sockaddr *)&address, &length) < 0)
        return -errno;
    queue->portid = address.nl_pid;
    return 0;
}

static int raw_open(struct queue *queue) {
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

    if (fd < 0)
        return -errno;
    queue->socket.fd = fd; // raw_close closes it, also after a failure
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    return take_portid(queue);
}

static int raw_adopt(struct queue *queue, int fd) {
    int result;

    queue->socket.fd = fd;
    result = take_portid(queue);
    if (result < 0)
        queue->socket.fd = -1;
    return result;
}

int queue_raw_send_whole(const struct queue *queue, const uint8_t *bytes, size_t length) {
    ssize_t sent;

    do
        sent = sendto(queue->socket.fd, bytes, length, 0, NULL, 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static int raw_request(struct queue *queue, enum queue_request request) {
    uint8_t buffer[QUEUE_REQUEST_BYTES];
    const bool acknowledged = request != QUEUE_UNBIND;
    const size_t length =
        queue_raw_build_request(&queue->settings, queue->flags, request, acknowledged, buffer);
    const int result = queue_raw_send_whole(queue, buffer, length);

    return result < 0 || !acknowledged ? result : queue_await_ack(queue);
}

static int raw_parse(struct queue *queue, const uint8_t *bytes, size_t received,
                     struct queue_packet *packet) {
    (void)queue;
    return queue_raw_parse(bytes, received, packet);
}

int queue_raw_verdict(struct queue *queue, const struct verdict_run *runs, size_t count) {
    const size_t length =
        queue_raw_build_verdicts(queue->settings.number, runs, count, queue->verdicts);
    const int result = queue_raw_send_whole(queue, queue->verdicts, length);

    return result < 0 ? result : (int)count;
}

static void raw_close(struct queue *queue) {
    if (queue->socket.fd >= 0)
        close(queue->socket.fd);
}

const struct queue_backend queue_raw = {
    .verdict_call = "sendto",
    .open = raw_open,
    .adopt = raw_adopt,
    .request = raw_request,
    .parse = raw_parse,
    .verdict = queue_raw_verdict,
    .close = raw_close,
};
