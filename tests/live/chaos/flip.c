// SPDX-License-Identifier: GPL-2.0-or-later
// Library between a firewall and its netlink socket (LD_PRELOAD). It flips bits in messages about
// packets and truncates some messages, as a faulty kernel would. The choice depends only on
// FLIP_SEED. FLIP_FROM: offset of the first byte that may be flipped; 16 excludes the netlink
// header. FLIP_PAUSE_US: pause before each receive in µs, as if the process had no CPU.
#include <dlfcn.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { ONE_IN = 4, CUT_ONE_IN = 64, CUT_BYTES = 40 };

static ssize_t (*real_recv)(int, void *, size_t, int);
static int (*real_recvmmsg)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
static size_t from;
static int64_t pause_ns;
static _Thread_local uint64_t state;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

__attribute__((constructor)) static void begin(void) {
    real_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    real_recvmmsg = (int (*)(int, struct mmsghdr *, unsigned int, int, struct timespec *))dlsym(
        RTLD_NEXT, "recvmmsg");
    from = (size_t)atoi(getenv("FLIP_FROM") ? getenv("FLIP_FROM") : "0");
    pause_ns = 1000 * (int64_t)atoi(getenv("FLIP_PAUSE_US") ? getenv("FLIP_PAUSE_US") : "0");
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/// Waits without a system call, since the sandbox would forbid one.
static void pause_call(void) {
    const int64_t end = now_ns() + pause_ns;

    while (pause_ns > 0 && now_ns() < end)
        continue;
}

/// Flips a bit of some messages about packets, and truncates some. Returns the new length.
/// - flags: in/out: MSG_TRUNC is added to them if the message is truncated; NULL = no truncation.
static size_t spoil(uint8_t *bytes, size_t length, int *flags) {
    struct nlmsghdr header;

    if (length < sizeof header)
        return length;
    memcpy(&header, bytes, sizeof header);
    if (header.nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
        return length;
    if (state == 0)
        state = strtoull(getenv("FLIP_SEED") ? getenv("FLIP_SEED") : "1", NULL, 10);
    if (next() % CUT_ONE_IN == 0 && length > CUT_BYTES && flags) {
        *flags |= MSG_TRUNC;
        return CUT_BYTES;
    }
    if (next() % ONE_IN == 0 && length > from)
        bytes[from + next() % (length - from)] ^= (uint8_t)(1U << next() % 8);
    return length;
}

ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    ssize_t got;

    pause_call();
    got = real_recv(fd, bytes, length, flags);
    if (got > 0)
        spoil(bytes, (size_t)got, NULL);
    return got;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
             struct timespec *timeout) {
    int got;

    pause_call();
    got = real_recvmmsg(fd, messages, count, flags, timeout);
    for (int i = 0; i < got; i++)
        messages[i].msg_len =
            (unsigned int)spoil(messages[i].msg_hdr.msg_iov->iov_base, messages[i].msg_len,
                                &messages[i].msg_hdr.msg_flags);
    return got;
}
