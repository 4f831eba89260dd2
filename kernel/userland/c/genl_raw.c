// SPDX-License-Identifier: GPL-2.0-or-later
// Generic netlink with send and recv only.
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"
#include "genl.h"
#include "twinwall_lab.h"

#define BUFFER_BYTES 65536

static int fd;
static uint32_t sequence;
static _Alignas(NLMSG_ALIGNTO) uint8_t out[BUFFER_BYTES], in[BUFFER_BYTES];

void genl_open(void) {
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};

    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("socket");
}

void genl_close(void) { close(fd); }

static struct nlmsghdr *begin(uint16_t type, uint16_t flags, uint8_t command, uint8_t version) {
    struct nlmsghdr *header = (struct nlmsghdr *)out;
    struct genlmsghdr *generic = NLMSG_DATA(header);

    *header = (struct nlmsghdr){.nlmsg_len = NLMSG_HDRLEN + GENL_HDRLEN,
                                .nlmsg_type = type,
                                .nlmsg_flags = NLM_F_REQUEST | flags,
                                .nlmsg_seq = ++sequence};
    *generic = (struct genlmsghdr){.cmd = command, .version = version};
    return header;
}

static void put(struct nlmsghdr *header, uint16_t type, const void *data, size_t length) {
    struct nlattr *attribute = (struct nlattr *)(out + header->nlmsg_len);

    attribute->nla_type = type;
    attribute->nla_len = NLA_HDRLEN + length;
    memcpy(attribute + 1, data, length);
    memset((uint8_t *)attribute + attribute->nla_len, 0, NLA_ALIGN(length) - length);
    header->nlmsg_len += NLA_ALIGN(attribute->nla_len);
}

static void transmit(const struct nlmsghdr *header) {
    if (send(fd, header, header->nlmsg_len, 0) != (ssize_t)header->nlmsg_len)
        fail("send");
}

static size_t receive(void) {
    ssize_t length = recv(fd, in, sizeof(in), MSG_TRUNC);

    if (length < 0)
        fail("recv");
    if ((size_t)length > sizeof(in))
        fail_because("recv", "truncated");
    return length;
}

/// Receives the single answer to the last request; an NLMSG_ERROR ends the program.
static const struct nlmsghdr *answer(void) {
    size_t length = receive();
    const struct nlmsghdr *header = (const struct nlmsghdr *)in;

    if (!NLMSG_OK(header, length) || header->nlmsg_seq != sequence)
        fail_because("recv", "not the answer");
    if (header->nlmsg_type == NLMSG_ERROR) {
        errno = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
        fail("the kernel's answer");
    }
    return header;
}

static const struct nlattr *find(const struct nlmsghdr *header, size_t at, uint16_t type) {
    while (at + NLA_HDRLEN <= header->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const uint8_t *)header + at);
        if (attribute->nla_len < NLA_HDRLEN || at + attribute->nla_len > header->nlmsg_len)
            break;
        if (attribute->nla_type == type)
            return attribute;
        at += NLA_ALIGN(attribute->nla_len);
    }
    fail_because("the kernel's answer", "an attribute is missing");
}

uint16_t genl_family(const char *name) {
    struct nlmsghdr *header = begin(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, 1);
    uint16_t number;

    put(header, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
    transmit(header);
    memcpy(&number, find(answer(), NLMSG_HDRLEN + GENL_HDRLEN, CTRL_ATTR_FAMILY_ID) + 1,
           sizeof(number));
    return number;
}

void genl_echo(uint16_t family, const uint8_t *bytes, size_t length) {
    struct nlmsghdr *header = begin(family, 0, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION);

    put(header, TWINWALL_LAB_A_DATA, bytes, length);
    transmit(header);
    const struct nlattr *data = find(answer(), NLMSG_HDRLEN + GENL_HDRLEN, TWINWALL_LAB_A_DATA);
    if (data->nla_len != NLA_HDRLEN + length)
        fail_because("echo", "another length");
}

static void ask_parts(uint16_t family, uint32_t parts) {
    struct nlmsghdr *request =
        begin(family, NLM_F_DUMP, TWINWALL_LAB_C_COUNT, TWINWALL_LAB_VERSION);

    put(request, TWINWALL_LAB_A_PARTS, &parts, sizeof(parts));
    transmit(request);
}

/// Receives once and adds the number of parts to the count. Returns true if more parts follow.
static bool read_parts(size_t *count) {
    size_t length = receive();
    const struct nlmsghdr *header = (const struct nlmsghdr *)in;

    for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
        if (header->nlmsg_type == NLMSG_DONE)
            return false;
        if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_seq != sequence)
            fail_because("dump", "not its part");
        find(header, NLMSG_HDRLEN + GENL_HDRLEN, TWINWALL_LAB_A_INDEX);
        ++*count;
    }
    return true;
}

size_t genl_dump(uint16_t family, uint32_t parts) {
    size_t count = 0;

    ask_parts(family, parts);
    while (read_parts(&count))
        ;
    return count;
}

void genl_dump_begin(uint16_t family, uint32_t parts) {
    size_t count = 0;

    ask_parts(family, parts);
    if (!read_parts(&count))
        fail_because("dump", "over at once");
}

void genl_dump_rest(void) {
    size_t count = 0;

    while (read_parts(&count))
        ;
}

uint32_t genl_refused(uint16_t family) {
    static int told;
    uint32_t missing;
    int on = 1;

    if (told != fd && setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)) != 0)
        fail("NETLINK_EXT_ACK");
    told = fd;
    transmit(begin(family, NLM_F_ACK, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION));
    size_t length = receive();
    const struct nlmsghdr *header = (const struct nlmsghdr *)in;
    const struct nlmsgerr *error = NLMSG_DATA(header);
    if (!NLMSG_OK(header, length) || header->nlmsg_type != NLMSG_ERROR || error->error != -EINVAL ||
        !(header->nlmsg_flags & NLM_F_ACK_TLVS))
        fail_because("refuse", "not a refusal");
    size_t at = NLMSG_HDRLEN + sizeof(*error) + error->msg.nlmsg_len - NLMSG_HDRLEN;
    memcpy(&missing, find(header, at, NLMSGERR_ATTR_MISS_TYPE) + 1, sizeof(missing));
    return missing;
}
