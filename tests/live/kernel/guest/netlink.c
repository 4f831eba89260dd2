// SPDX-License-Identifier: GPL-2.0-or-later
#include "netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "guest.h"

static uint32_t last_sequence = 100;

int netlink_open(void) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    struct timeval patience = {.tv_sec = 3};
    int on = 1;

    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
    CHECK(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return fd;
}

struct nlmsghdr *request_header(struct request *request) {
    return (struct nlmsghdr *)request->bytes;
}

void request_begin(struct request *request, uint16_t type, uint16_t flags, uint8_t command) {
    struct nlmsghdr *header = request_header(request);
    struct genlmsghdr *generic = NLMSG_DATA(header);

    memset(request->bytes, 0, NLMSG_HDRLEN + GENL_HDRLEN);
    header->nlmsg_len = NLMSG_HDRLEN + GENL_HDRLEN;
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | flags;
    header->nlmsg_seq = ++last_sequence;
    generic->cmd = command;
    generic->version = 1;
}

void request_attribute(struct request *request, uint16_t type, const void *data, size_t length) {
    struct nlmsghdr *header = request_header(request);
    struct nlattr *attribute = (struct nlattr *)(request->bytes + NLMSG_ALIGN(header->nlmsg_len));

    attribute->nla_type = type;
    attribute->nla_len = NLA_HDRLEN + length;
    memcpy((uint8_t *)attribute + NLA_HDRLEN, data, length);
    header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

int request_send(int fd, struct request *request) {
    ssize_t sent = send(fd, request->bytes, request_header(request)->nlmsg_len, 0);

    return sent < 0 ? -errno : 0;
}

/// Returns the type of the missing attribute that an NLMSG_ERROR names; 0 = none. The attributes of
/// an NLMSG_ERROR follow the request, or the request's header.
static uint32_t missing_of(const struct nlmsghdr *message) {
    const struct nlmsgerr *error = NLMSG_DATA(message);
    size_t at = NLMSG_HDRLEN + sizeof(*error);

    if (!(message->nlmsg_flags & NLM_F_ACK_TLVS))
        return 0;
    if (!(message->nlmsg_flags & NLM_F_CAPPED))
        at += NLMSG_ALIGN(error->msg.nlmsg_len) - NLMSG_HDRLEN;
    while (at + NLA_HDRLEN <= message->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const uint8_t *)message + at);
        uint32_t value;

        memcpy(&value, attribute + 1, sizeof(value));
        if (attribute->nla_type == NLMSGERR_ATTR_MISS_TYPE)
            return value;
        at += NLA_ALIGN(attribute->nla_len);
    }
    return 0;
}

void reply_read(int fd, struct reply *reply) {
    struct request message;

    memset(reply, 0, offsetof(struct reply, answer));
    while (!reply->acknowledged) {
        ssize_t length = recv(fd, message.bytes, sizeof(message.bytes), 0);
        struct nlmsghdr *header = (struct nlmsghdr *)message.bytes;

        if (length < 0)
            guest_fail(__FILE__, __LINE__, "no answer: %s", strerror(errno));
        for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
            if (header->nlmsg_type == NLMSG_ERROR) {
                reply->error = ((struct nlmsgerr *)NLMSG_DATA(header))->error;
                reply->missing = missing_of(header);
                reply->acknowledged = true;
                continue;
            }
            reply->type = header->nlmsg_type;
            reply->command = ((struct genlmsghdr *)NLMSG_DATA(header))->cmd;
            reply->sequence = header->nlmsg_seq;
            memcpy(reply->answer.bytes, header, header->nlmsg_len);
        }
    }
}

const struct nlattr *attribute_of(const struct nlmsghdr *message, uint16_t type) {
    size_t at = NLMSG_HDRLEN + GENL_HDRLEN;

    while (at + NLA_HDRLEN <= message->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const uint8_t *)message + at);

        CHECK(attribute->nla_len >= NLA_HDRLEN && at + attribute->nla_len <= message->nlmsg_len);
        if (attribute->nla_type == type)
            return attribute;
        at += NLA_ALIGN(attribute->nla_len);
    }
    return NULL;
}

int family_of(int fd, const char *name, uint32_t *attribute_most) {
    struct request request;
    struct reply reply;
    uint16_t number;

    request_begin(&request, GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY);
    request_attribute(&request, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
    CHECK_EQUAL(request_send(fd, &request), 0);
    reply_read(fd, &reply);
    if (reply.error)
        return reply.error;
    const struct nlmsghdr *answer = request_header(&reply.answer);
    memcpy(&number, attribute_of(answer, CTRL_ATTR_FAMILY_ID) + 1, sizeof(number));
    if (attribute_most)
        memcpy(attribute_most, attribute_of(answer, CTRL_ATTR_MAXATTR) + 1,
               sizeof(*attribute_most));
    return number;
}
