// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of `twinwall_echo` by generic netlink messages. Some have wrong bytes or attributes; the
// correct ones must get the replies that the family's header describes.
#include "fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"
#include "netlink.h"
#include "twinwall_lab.h"

#define SOCKETS 6
#define BATCH_MOST 3
#define CHECK_EVERY 128

/// Message as it was sent.
struct sent {
    struct request request;
    size_t length; ///< bytes of the request, with padding
    bool bent;     ///< bytes were changed: any answer is valid
    bool unknown;  ///< has an attribute that no request may have
};

static int sockets[SOCKETS];
static struct sent batch[BATCH_MOST];
static uint8_t payload[TWINWALL_LAB_DATA_MOST + 2];

static uint16_t random_flags(struct random *random) {
    static const uint16_t flags[] = {0,          NLM_F_ACK,   NLM_F_DUMP, NLM_F_DUMP | NLM_F_ACK,
                                     NLM_F_ROOT, NLM_F_MATCH, NLM_F_ECHO};

    if (random_once_in(random, 10))
        return random_below(random, 65536);
    return flags[random_below(random, sizeof(flags) / sizeof(flags[0]))];
}

static void add_attribute(struct random *random, struct sent *sent) {
    uint16_t type = random_below(random, TWINWALL_LAB_A_END + 2);
    size_t room = NETLINK_BYTES - NLMSG_ALIGN(request_header(&sent->request)->nlmsg_len) - 64;
    size_t length = random_length(random, sizeof(payload));

    if (random_once_in(random, 16))
        type = random_below(random, 65536);
    if (type == TWINWALL_LAB_A_PARTS && !random_once_in(random, 3))
        length = sizeof(uint32_t);
    if (length > room)
        length = room;
    uint16_t number = type & NLA_TYPE_MASK;
    sent->unknown |= number == 0 || number >= TWINWALL_LAB_A_INDEX;
    random_fill(random, payload, length);
    request_attribute(&sent->request, type, payload, length);
}

/// Corrupts the length, type or bytes of a message. The type never becomes that of another family:
/// other families are not tested.
static void bend(struct random *random, struct sent *sent) {
    struct nlmsghdr *header = request_header(&sent->request);
    struct nlattr *attribute = (struct nlattr *)(sent->request.bytes + NLMSG_HDRLEN + GENL_HDRLEN);

    sent->bent = true;
    switch (random_below(random, 5)) {
    case 0:
        header->nlmsg_len = random_once_in(random, 2) ? random_below(random, 2 * sent->length)
                                                      : random_below(random, UINT32_MAX);
        break;
    case 1:
        if (sent->length > NLMSG_HDRLEN + GENL_HDRLEN)
            attribute->nla_len = random_below(random, 65536);
        break;
    case 2:
        sent->length = random_below(random, sent->length + 1);
        break;
    case 3:
        header->nlmsg_type = random_below(random, NLMSG_MIN_TYPE);
        break;
    default:
        for (int i = random_below(random, 8); i >= 0; i--)
            sent->request.bytes[6 + random_below(random, sent->length - 6)] =
                random_below(random, 256);
    }
}

/// Makes a correct request: an echo, or a dump that may be long.
static void make_right(struct random *random, struct sent *sent, int family) {
    uint32_t parts = 1 + random_below(random, random_once_in(random, 2) ? 10 : 1000000);
    size_t length = 1 + random_below(random, TWINWALL_LAB_DATA_MOST);

    if (random_once_in(random, 4)) {
        request_begin(&sent->request, family, NLM_F_DUMP, TWINWALL_LAB_C_COUNT);
        request_attribute(&sent->request, TWINWALL_LAB_A_PARTS, &parts, sizeof(parts));
        return;
    }
    request_begin(&sent->request, family, random_once_in(random, 2) ? NLM_F_ACK : 0,
                  TWINWALL_LAB_C_ECHO);
    random_fill(random, payload, length);
    request_attribute(&sent->request, TWINWALL_LAB_A_DATA, payload, length);
}

static void make(struct random *random, struct sent *sent, int family) {
    sent->bent = sent->unknown = false;
    if (random_once_in(random, 3)) {
        make_right(random, sent, family);
    } else {
        request_begin(&sent->request, family, random_flags(random),
                      random_below(random, TWINWALL_LAB_C_TOUCH + 3));
        for (int i = random_below(random, 4); i > 0; i--)
            add_attribute(random, sent);
    }
    sent->length = NLMSG_ALIGN(request_header(&sent->request)->nlmsg_len);
    if (random_once_in(random, 3))
        bend(random, sent);
}

/// Returns the last data attribute, which is the one that the kernel uses; NULL if there is none.
static const struct nlattr *last_data(const struct nlmsghdr *message) {
    const struct nlattr *found = NULL;
    size_t at = NLMSG_HDRLEN + GENL_HDRLEN;

    while (at + NLA_HDRLEN <= message->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const uint8_t *)message + at);
        if ((attribute->nla_type & NLA_TYPE_MASK) == TWINWALL_LAB_A_DATA)
            found = attribute;
        at += NLA_ALIGN(attribute->nla_len);
    }
    return found;
}

/// Checks an echo against the request of the current batch with the same sequence number, and the
/// error number of an NLMSG_ERROR. Accepts any other reply to a corrupted or earlier request, and
/// any part of a dump.
/// - count: number of messages in the batch.
static void check_answer(const struct nlmsghdr *answer, size_t count, int family) {
    const struct sent *sent = NULL;

    for (size_t i = 0; i < count; i++)
        if (request_header(&batch[i].request)->nlmsg_seq == answer->nlmsg_seq)
            sent = &batch[i];
    if (answer->nlmsg_type == NLMSG_ERROR) {
        int error = ((const struct nlmsgerr *)NLMSG_DATA(answer))->error;
        CHECK(error <= 0 && error > -200);
        return;
    }
    if (answer->nlmsg_type == NLMSG_DONE || answer->nlmsg_flags & NLM_F_MULTI)
        return; /* part of a dump, possibly of an older one */
    /* Messages that were not read before may arrive now. */
    if (!sent || sent->bent)
        return;
    CHECK_EQUAL(answer->nlmsg_type, family);
    CHECK(!sent->unknown);
    const struct nlattr *there = last_data(request_header(&((struct sent *)sent)->request));
    const struct nlattr *back = attribute_of(answer, TWINWALL_LAB_A_DATA);
    CHECK(there && back && there->nla_len == back->nla_len);
    CHECK(memcmp(there + 1, back + 1, there->nla_len - NLA_HDRLEN) == 0);
}

/// Reads some of the available replies. The others, such as those of a long dump, may stay unread.
static void read_answers(int fd, struct random *random, size_t count, int family) {
    static struct request in;

    for (int i = random_below(random, 8); i >= 0; i--) {
        ssize_t length = recv(fd, in.bytes, sizeof(in.bytes), MSG_DONTWAIT);
        struct nlmsghdr *header = (struct nlmsghdr *)in.bytes;

        if (length <= 0)
            return;
        for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length))
            check_answer(header, count, family);
    }
}

static void bend_socket(struct random *random, int fd) {
    static const int options[] = {NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK,
                                  NETLINK_NO_ENOBUFS, NETLINK_BROADCAST_ERROR};
    int value = random_below(random, 2), bytes = random_below(random, 300000);

    setsockopt(fd, SOL_NETLINK, options[random_below(random, 5)], &value, sizeof(value));
    if (random_once_in(random, 4))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/// Checks that a new client still gets an echo and a dump, whatever the fuzzer has sent or not
/// read.
static void check_works(void) {
    int fd = netlink_open(), family = family_of(fd, TWINWALL_LAB_FAMILY, NULL);
    struct request request;
    struct reply reply;
    uint32_t parts = 3;

    CHECK(family > 0);
    request_begin(&request, family, NLM_F_ACK, TWINWALL_LAB_C_ECHO);
    request_attribute(&request, TWINWALL_LAB_A_DATA, "works", 5);
    CHECK_EQUAL(request_send(fd, &request), 0);
    reply_read(fd, &reply);
    CHECK_EQUAL(reply.error, 0);
    CHECK_EQUAL(reply.sequence, request_header(&request)->nlmsg_seq);
    request_begin(&request, family, NLM_F_DUMP, TWINWALL_LAB_C_COUNT);
    request_attribute(&request, TWINWALL_LAB_A_PARTS, &parts, sizeof(parts));
    CHECK_EQUAL(request_send(fd, &request), 0);
    CHECK(recv(fd, request.bytes, sizeof(request.bytes), 0) > 0);
    close(fd);
}

static void step(struct random *random, int family) {
    static uint8_t out[BATCH_MOST * NETLINK_BYTES];
    int *fd = &sockets[random_below(random, SOCKETS)];
    size_t count = 1 + (random_once_in(random, 4) ? random_below(random, BATCH_MOST) : 0);
    size_t length = 0;

    if (random_once_in(random, 20)) {
        close(*fd);
        *fd = netlink_open();
    }
    if (random_once_in(random, 20))
        bend_socket(random, *fd);
    for (size_t i = 0; i < count; i++) {
        make(random, &batch[i], family);
        memcpy(out + length, batch[i].request.bytes, batch[i].length);
        length += batch[i].length;
    }
    send(*fd, out, length, MSG_DONTWAIT);
    read_answers(*fd, random, count, family);
}

void fuzz_echo(uint64_t seed, uint64_t steps) {
    int first = netlink_open(), family = family_of(first, TWINWALL_LAB_FAMILY, NULL);

    CHECK(family > 0);
    close(first);
    for (int i = 0; i < SOCKETS; i++)
        sockets[i] = netlink_open();
    for (uint64_t i = 0; i < steps; i++) {
        struct random random = random_of(seed, i);

        fuzz_at(i + 1);
        step(&random, family);
        if (i % CHECK_EVERY == 0)
            check_works();
    }
    check_works();
}
