// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
#include "queue/mnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
// Included after the kernel's header, which has more attributes than the copy in the library's
// header.
#include <libnetfilter_queue/libnetfilter_queue.h>

#include "queue/attribute.h"
#include "queue/frame.h"

enum {
    // Number of entries in a table of attributes. nfq_nlmsg_parse writes entries up to the NFQA_MAX
    // with which the library was built, which may be newer.
    ATTRIBUTES_MAX = 64,
};
_Static_assert(NFQA_MAX < ATTRIBUTES_MAX, "the table holds every attribute");

static uint32_t u32_of(struct nlattr *const *attributes, int type, uint32_t absent) {
    return attributes[type] ? ntohl(mnl_attr_get_u32(attributes[type])) : absent;
}

/// Parses the connection's mark in an NFQA_CT that queue_check_attributes has accepted.
static void take_conntrack(const struct nlattr *conntrack, struct queue_packet *packet) {
    packet->has_ct_mark = true;
    queue_conntrack_mark(mnl_attr_get_payload(conntrack), mnl_attr_get_payload_len(conntrack),
                         &packet->ct_mark);
}

/// Fills in a packet from attributes that queue_check_attributes has accepted.
static void take_attributes(struct nlattr *const *attributes, struct queue_packet *packet) {
    const struct nfqnl_msg_packet_hdr *packet_hdr =
        mnl_attr_get_payload(attributes[NFQA_PACKET_HDR]);
    const struct nlattr *payload = attributes[NFQA_PAYLOAD];

    *packet = (struct queue_packet){
        .id = ntohl(packet_hdr->packet_id),
        .ethertype = ntohs(packet_hdr->hw_protocol),
        .hook = packet_hdr->hook,
        .mark = u32_of(attributes, NFQA_MARK, 0),
        .indev = u32_of(attributes, NFQA_IFINDEX_INDEV, 0),
        .outdev = u32_of(attributes, NFQA_IFINDEX_OUTDEV, 0),
        .uid = u32_of(attributes, NFQA_UID, QUEUE_UNKNOWN),
        .gid = u32_of(attributes, NFQA_GID, QUEUE_UNKNOWN),
        .ct_info = u32_of(attributes, NFQA_CT_INFO, QUEUE_UNKNOWN),
        .skb_info = u32_of(attributes, NFQA_SKB_INFO, 0),
    };
    if (attributes[NFQA_CT])
        take_conntrack(attributes[NFQA_CT], packet);
    if (payload) {
        packet->payload = mnl_attr_get_payload(payload);
        packet->payload_bytes = mnl_attr_get_payload_len(payload);
    }
    packet->original_bytes = u32_of(attributes, NFQA_CAP_LEN, packet->payload_bytes);
}

int queue_mnl_parse(const uint8_t *bytes, size_t received, struct queue_packet *packet) {
    struct nlattr *attributes[ATTRIBUTES_MAX] = {NULL};
    const int framed = queue_frame(bytes, received, packet);
    struct queue_extras extras;

    if (framed != QUEUE_PARSED_PACKET || packet->truncated)
        return framed;
    if (queue_check_attributes(bytes, &extras) < 0 ||
        nfq_nlmsg_parse((const struct nlmsghdr *)(const void *)bytes, attributes) < MNL_CB_OK)
        return QUEUE_PARSED_MALFORMED;
    take_attributes(attributes, packet);
    return QUEUE_PARSED_PACKET;
}

size_t queue_mnl_build_verdicts(uint16_t number, const struct verdict_run *runs, size_t count,
                                uint8_t *buffer) {
    size_t length = 0;

    for (size_t i = 0; i < count; i++) {
        const struct verdict_run *run = &runs[i];
        const bool batch = run->gap || run->count > 1;
        struct nlmsghdr *message = nfq_nlmsg_put(
            (char *)buffer + length, batch ? NFQNL_MSG_VERDICT_BATCH : NFQNL_MSG_VERDICT, number);

        message->nlmsg_seq = run->gap ? QUEUE_GAP_SEQUENCE : 0;
        nfq_nlmsg_verdict_put(message, (int)run->last_id, (int)run->kernel);
        if (run->has_mark)
            nfq_nlmsg_verdict_put_mark(message, run->mark);
        length += message->nlmsg_len;
    }
    return length;
}

static int mnl_open(struct queue *queue) {
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);

    if (!socket)
        return -errno;
    queue->library = socket; // mnl_close closes it, also after a failure
    queue->socket.fd = mnl_socket_get_fd(socket);
    if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
        return -errno;
    queue->portid = mnl_socket_get_portid(socket);
    return 0;
}

static int mnl_adopt(struct queue *queue, int fd) {
    struct mnl_socket *socket = mnl_socket_fdopen(fd);

    if (!socket)
        return -errno;
    queue->library = socket; // mnl_close closes it, with fd
    queue->socket.fd = fd;
    queue->portid = mnl_socket_get_portid(socket);
    return 0;
}

/// Sends a datagram to the kernel, which accepts the whole datagram or nothing.
static int mnl_send(const struct queue *queue, const void *bytes, size_t length) {
    ssize_t sent;

    do
        sent = mnl_socket_sendto(queue->library, bytes, length);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static void put_request(struct nlmsghdr *message, const struct queue *queue,
                        enum queue_request request) {
    const uint32_t copy_bytes = queue->settings.copy_bytes;

    switch (request) {
    case QUEUE_BIND:
        nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
        break;
    case QUEUE_LENGTH:
        nfq_nlmsg_cfg_put_qmaxlen(message, queue->settings.queue_length);
        break;
    case QUEUE_FLAGS:
        mnl_attr_put_u32(message, NFQA_CFG_FLAGS, htonl(queue->flags));
        mnl_attr_put_u32(message, NFQA_CFG_MASK, htonl(QUEUE_FLAGS_ALL));
        break;
    case QUEUE_MODE:
        nfq_nlmsg_cfg_put_params(message, copy_bytes > 0 ? NFQNL_COPY_PACKET : NFQNL_COPY_META,
                                 (int)copy_bytes);
        break;
    case QUEUE_UNBIND:
        nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_UNBIND);
        break;
    }
}

static int mnl_request(struct queue *queue, enum queue_request request) {
    // Zeroed, because the library does not write the padding of attributes.
    _Alignas(struct nlmsghdr) char buffer[QUEUE_REQUEST_BYTES] = {0};
    struct nlmsghdr *message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, queue->settings.number);
    int result;

    put_request(message, queue, request);
    if (request != QUEUE_UNBIND)
        message->nlmsg_flags |= NLM_F_ACK;
    result = mnl_send(queue, message, message->nlmsg_len);
    return result < 0 || request == QUEUE_UNBIND ? result : queue_await_ack(queue);
}

static int mnl_parse(struct queue *queue, const uint8_t *bytes, size_t received,
                     struct queue_packet *packet) {
    (void)queue;
    return queue_mnl_parse(bytes, received, packet);
}

static int mnl_verdict(struct queue *queue, const struct verdict_run *runs, size_t count) {
    const size_t length =
        queue_mnl_build_verdicts(queue->settings.number, runs, count, queue->verdicts);
    const int result = mnl_send(queue, queue->verdicts, length);

    return result < 0 ? result : (int)count;
}

static void mnl_close(struct queue *queue) {
    if (queue->library)
        mnl_socket_close(queue->library);
}

const struct queue_backend queue_mnl = {
    .verdict_call = "sendto",
    .open = mnl_open,
    .adopt = mnl_adopt,
    .request = mnl_request,
    .parse = mnl_parse,
    .verdict = mnl_verdict,
    .close = mnl_close,
};
