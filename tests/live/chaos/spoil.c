// SPDX-License-Identifier: GPL-2.0-or-later
// Library between a firewall and its netlink socket (LD_PRELOAD). It corrupts the messages about
// packets that have SPOIL_WORD in their payload. SPOIL_WAY selects the corruption:
// - id: the length of the first attribute, so that the packet's id can't be read;
// - rest: the length of the second attribute: the id can be read;
// - short: the message's own length;
// - far: the packet's id, which becomes the id of a later packet;
// - gone: the message is missing.
#include <dlfcn.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SPOIL_WORD "SPOIL"

// Offsets in a message: the first attribute follows the headers, and the second attribute follows
// the 12 bytes of the first. The id is at the start of the first attribute's value.
enum { FIRST_AT = 20, ID_AT = 24, SECOND_AT = 32 };

static ssize_t (*real_recv)(int, void *, size_t, int);
static int (*real_recvmmsg)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
static const char *way;

__attribute__((constructor)) static void begin(void) {
    real_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    real_recvmmsg = (int (*)(int, struct mmsghdr *, unsigned int, int, struct timespec *))dlsym(
        RTLD_NEXT, "recvmmsg");
    way = getenv("SPOIL_WAY") ? getenv("SPOIL_WAY") : "";
}

static bool is_meant(const uint8_t *bytes, size_t length) {
    struct nlmsghdr header;

    if (length < SECOND_AT + NLA_HDRLEN)
        return false;
    memcpy(&header, bytes, sizeof header);
    return header.nlmsg_type == (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET) &&
           memmem(bytes, length, SPOIL_WORD, strlen(SPOIL_WORD));
}

/// Corrupts a message if it is about a packet that contains SPOIL_WORD. Returns false if the
/// message must be removed.
static bool spoil(uint8_t *bytes, size_t length) {
    const uint16_t attribute = 2; // bytes: too few, since an attribute's header has four
    const uint32_t message = 18;

    if (!is_meant(bytes, length))
        return true;
    if (strcmp(way, "id") == 0)
        memcpy(bytes + FIRST_AT, &attribute, sizeof attribute);
    else if (strcmp(way, "rest") == 0)
        memcpy(bytes + SECOND_AT, &attribute, sizeof attribute);
    else if (strcmp(way, "short") == 0)
        memcpy(bytes, &message, sizeof message);
    else if (strcmp(way, "far") == 0)
        bytes[ID_AT] ^= 1;
    return strcmp(way, "gone") != 0;
}

ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    ssize_t got;

    do
        got = real_recv(fd, bytes, length, flags);
    while (got > 0 && !spoil(bytes, (size_t)got));
    return got;
}

/// Corrupts messages, and moves the remaining ones into the places of removed ones. Returns the
/// number of remaining messages.
static int close_up(struct mmsghdr *messages, int got) {
    int kept = 0;

    for (int i = 0; i < got; i++) {
        struct iovec *to = messages[kept].msg_hdr.msg_iov, *from = messages[i].msg_hdr.msg_iov;

        if (!spoil(from->iov_base, messages[i].msg_len))
            continue;
        if (kept < i)
            memcpy(to->iov_base, from->iov_base, messages[i].msg_len);
        messages[kept].msg_len = messages[i].msg_len;
        messages[kept].msg_hdr.msg_flags = messages[i].msg_hdr.msg_flags;
        kept++;
    }
    return kept;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
             struct timespec *timeout) {
    int got;

    do {
        got = real_recvmmsg(fd, messages, count, flags, timeout);
        if (got <= 0)
            return got;
        got = close_up(messages, got);
    } while (got == 0);
    return got;
}
