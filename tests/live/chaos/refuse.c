// SPDX-License-Identifier: GPL-2.0-or-later
// Library between a firewall and its netlink socket (LD_PRELOAD). It refuses verdicts as a kernel
// without memory would. REFUSE_ERROR: errno. REFUSE_TIMES: number of refusals of each message.
// REFUSE_BUFFER: size of the send buffer to request (SO_SNDBUF), so that the kernel itself refuses
// longer messages. REFUSE_ERROR does not affect the guard.
#include <dlfcn.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int (*real_socket)(int, int, int);
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int error, times, buffer;
static _Thread_local int refused;

/// Returns true if the command line is "PROGRAM guard ...". Must be called before the sandbox is
/// active.
static bool is_guard(void) {
    char line[4096] = {0};
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = 0;

    if (file) {
        length = fread(line, 1, sizeof line - 2, file);
        fclose(file);
    }
    return length > 0 && strcmp(line + strlen(line) + 1, "guard") == 0;
}

static int number_of(const char *name) {
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    real_socket = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    real_send = (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    real_sendto = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *,
                              socklen_t))dlsym(RTLD_NEXT, "sendto");
    real_sendmsg = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    error = is_guard() ? 0 : number_of("REFUSE_ERROR");
    times = number_of("REFUSE_TIMES");
    buffer = number_of("REFUSE_BUFFER");
}

/// Returns true, with errno set, if a message must be refused: a verdict that was refused fewer
/// than REFUSE_TIMES times before. Returns false if the message must be sent.
static bool refuse(const void *bytes, size_t length) {
    struct nlmsghdr header;

    if (error == 0 || length < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (header.nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT) &&
        header.nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT_BATCH))
        return false;
    if (refused++ == times) {
        refused = 0;
        return false;
    }
    errno = error;
    return true;
}

int socket(int domain, int type, int protocol) {
    const int fd = real_socket(domain, type, protocol);

    if (fd >= 0 && buffer > 0 && domain == AF_NETLINK && protocol == NETLINK_NETFILTER)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    return fd;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    return refuse(bytes, length) ? -1 : real_send(fd, bytes, length, flags);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to,
               socklen_t to_length) {
    return refuse(bytes, length) ? -1 : real_sendto(fd, bytes, length, flags, to, to_length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    if (message->msg_iovlen > 0 &&
        refuse(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len))
        return -1;
    return real_sendmsg(fd, message, flags);
}
