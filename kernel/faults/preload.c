// SPDX-License-Identifier: GPL-2.0-or-later
// Simulates one fault of a netlink socket in a program, to test its library: LD_PRELOAD=faults.so
// FAULT=NAME FAULT_AT=N. The Nth datagram that the program reads is
// - full: not read; the call fails with ENOBUFS, as after a message that found no room in the
// socket;
// - short: read into 24 bytes, so that the kernel truncates it;
// - interrupted: marked as a part of a dump whose list has changed (NLM_F_DUMP_INTR);
// - foreign: marked with the sequence number of a different request.
// A look-ahead (MSG_PEEK) does not count as reading.
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SHORT_BYTES 24
#define FOREIGN 0x40000000u

static ssize_t (*real)(int fd, struct msghdr *message, int flags);
static const char *fault;
static int left;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAULT_AT");

    *(void **)&real = dlsym(RTLD_NEXT, "recvmsg");
    fault = getenv("FAULT");
    left = fault != NULL && at != NULL ? atoi(at) : 0;
}

static int is_netlink(int fd) {
    int domain = 0;
    socklen_t length = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_NETLINK;
}

static int is_fault(const char *name) { return strcmp(fault, name) == 0; }

/// Modifies the first message of a received datagram for the faults `interrupted` and `foreign`.
static void change(const struct msghdr *message, ssize_t length) {
    struct nlmsghdr *header = message->msg_iov[0].iov_base;

    if (length < (ssize_t)sizeof(*header) || message->msg_iov[0].iov_len < sizeof(*header))
        return;
    if (is_fault("interrupted"))
        header->nlmsg_flags |= NLM_F_DUMP_INTR;
    if (is_fault("foreign"))
        header->nlmsg_seq ^= FOREIGN;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    size_t room = message->msg_iovlen > 0 ? message->msg_iov[0].iov_len : 0;
    ssize_t length;

    if (left == 0 || (flags & MSG_PEEK) || !is_netlink(fd))
        return real(fd, message, flags);
    if (left == 1 && is_fault("full")) {
        left = 0;
        errno = ENOBUFS;
        return -1;
    }
    if (left == 1 && is_fault("short") && room > SHORT_BYTES)
        message->msg_iov[0].iov_len = SHORT_BYTES;
    length = real(fd, message, flags);
    if (room > 0) {
        // MSG_TRUNC requests the whole length: return one that exceeds the program's buffer.
        if (message->msg_iov[0].iov_len < room && (flags & MSG_TRUNC) && length > SHORT_BYTES)
            length += room - SHORT_BYTES;
        message->msg_iov[0].iov_len = room;
    }
    if (length >= 0 && --left == 0)
        change(message, length);
    return length;
}

ssize_t recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *restrict from,
                 socklen_t *restrict from_bytes) {
    struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    struct msghdr message = {.msg_name = from, .msg_iov = &part, .msg_iovlen = 1};
    ssize_t length;

    if (from != NULL && from_bytes != NULL)
        message.msg_namelen = *from_bytes;
    length = recvmsg(fd, &message, flags);
    if (length >= 0 && from != NULL && from_bytes != NULL)
        *from_bytes = message.msg_namelen;
    return length;
}

ssize_t recv(int fd, void *buffer, size_t bytes, int flags) {
    return recvfrom(fd, buffer, bytes, flags, NULL, NULL);
}
