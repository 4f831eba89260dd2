// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll sendmsg recvmsg shutdown close
#include "handover/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/wait.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
    ROOM_STEP_BYTES = 65536, // minimum growth of the receive buffer, in bytes
};

/// Buffer of a control message with one descriptor.
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int handover_channel_inherited(void) {
    const char *given = getenv(HANDOVER_GIVEN);
    char *end = NULL;
    const long number = given ? strtol(given, &end, 10) : -1;
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (number < 0 || number > INT_MAX || end == given || *end != '\0' ||
        getsockopt((int)number, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return -1;
    // The guard, which this process starts later, must not inherit the descriptor.
    return fcntl((int)number, F_SETFD, FD_CLOEXEC) < 0 ? -1 : (int)number;
}

void handover_channel_open(struct handover_channel *channel, int fd, const char *whose,
                           uint32_t timeout_ms) {
    *channel = (struct handover_channel){
        .fd = fd,
        .whose = whose,
        .due_ns = wait_clock() + timeout_ms * NS_PER_MS,
    };
}

void handover_channel_extend(struct handover_channel *channel, uint32_t timeout_ms) {
    channel->due_ns = wait_clock() + timeout_ms * NS_PER_MS;
}

void handover_channel_until(struct handover_channel *channel, uint64_t due_ns) {
    channel->due_ns = due_ns;
}

/// Fills in the failure for an error of sending or receiving.
/// - error: -errno, which is returned.
static int fail(const struct handover_channel *channel, int error, struct failure *failure) {
    const char *whose = channel->whose;

    switch (error) {
    case -ETIMEDOUT:
        failure_set(failure, LOG_EXIT_CALL,
                    "the %s firewall does not continue the upgrade: see its log, and try again",
                    whose);
        break;
    case -EPIPE:
    case -ECONNRESET:
        failure_set(failure, LOG_EXIT_CALL,
                    "the %s firewall ended the upgrade: see its log, and try again", whose);
        break;
    case -EMSGSIZE:
    case -EPROTO:
        failure_set(
            failure, LOG_EXIT_CALL,
            "the %s firewall sent an unexpected message: check that it is a Twinwall firewall",
            whose);
        break;
    default:
        failure_set_start(failure, "the connection of the upgrade", -error);
    }
    return error;
}

/// Waits until the socket can be read (`events` POLLIN) or written (POLLOUT). Returns 0 or -errno:
/// -ETIMEDOUT at the deadline.
static int wait_for(const struct handover_channel *channel, short events) {
    struct pollfd source = {.fd = channel->fd, .events = events};

    for (;;) {
        const uint64_t now_ns = wait_clock();
        int result;

        if (now_ns >= channel->due_ns)
            return -ETIMEDOUT;
        result = poll(&source, 1, (int)((channel->due_ns - now_ns) / NS_PER_MS) + 1);
        if (result > 0)
            return 0;
        if (result < 0 && errno != EINTR)
            return -errno;
    }
}

/// Sends as many bytes as possible without blocking, with the descriptor if there is one. Returns
/// the number of sent bytes, or -errno.
/// - fd: -1 = none.
static ssize_t send_some(const struct handover_channel *channel, const char *bytes, size_t length,
                         int fd) {
    struct iovec vector = {.iov_base = (char *)bytes, .iov_len = length};
    union control control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t sent;

    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    sent = sendmsg(channel->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

int handover_channel_send(struct handover_channel *channel, const char *bytes, size_t length,
                          int fd, struct failure *failure) {
    while (length > 0) {
        const ssize_t sent = send_some(channel, bytes, length, fd);
        int result = 0;

        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
            fd = -1; // the descriptor is sent only with the first byte
        } else if (sent == -EAGAIN) {
            result = wait_for(channel, POLLOUT);
        } else if (sent != -EINTR) {
            result = (int)sent;
        }
        if (result < 0)
            return fail(channel, result, failure);
    }
    return 0;
}

/// Stores the received descriptor, if there is one. Returns 0, or -EPROTO if control data other
/// than one descriptor came, or if too many descriptors are stored.
static int keep_fd(struct handover_channel *channel, const struct msghdr *message) {
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fd;

    if (!header)
        return 0;
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof fd))
        return -EPROTO;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    if (channel->fd_count == HANDOVER_FDS_MAX) {
        close(fd);
        return -EPROTO;
    }
    channel->fds[channel->fd_count++] = fd;
    return (message->msg_flags & MSG_CTRUNC) != 0 ? -EPROTO : 0;
}

/// Moves the unread bytes to the start of the buffer and grows it if little room is left. Returns 0
/// or -errno: -EMSGSIZE if the buffer must grow, but already contains HANDOVER_LINE_BYTES unread
/// bytes.
static int make_room(struct handover_channel *channel) {
    const size_t left = channel->filled - channel->begin;
    size_t room;
    char *grown;

    if (channel->begin > 0)
        memmove(channel->bytes, channel->bytes + channel->begin, left);
    channel->begin = 0;
    channel->filled = left;
    if (channel->room - left >= ROOM_STEP_BYTES)
        return 0;
    room = 2 * channel->room + ROOM_STEP_BYTES;
    if (left >= HANDOVER_LINE_BYTES)
        return -EMSGSIZE;
    grown = realloc(channel->bytes, room);
    if (!grown)
        return -ENOMEM;
    channel->bytes = grown;
    channel->room = room;
    return 0;
}

/// Receives available bytes, and stores the descriptor that came with them, if any. Returns the
/// number of bytes, or -errno: -ECONNRESET if the other end has closed the connection.
static ssize_t receive_some(struct handover_channel *channel) {
    struct iovec vector = {.iov_base = channel->bytes + channel->filled,
                           .iov_len = channel->room - channel->filled};
    union control control;
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))};
    const ssize_t received = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int result;

    if (received < 0)
        return -errno;
    result = keep_fd(channel, &message);
    if (result < 0)
        return result;
    channel->filled += (size_t)received;
    return received > 0 ? received : -ECONNRESET;
}

/// Removes the first line from the buffer. Returns the line without its line end; NULL if no line
/// is complete.
/// - looked: in/out: number of unread bytes that are known to contain no line end.
static char *extract_line(struct handover_channel *channel, size_t *looked) {
    const size_t left = channel->filled - channel->begin;
    char *begin, *end;

    if (left == *looked)
        return NULL;
    begin = channel->bytes + channel->begin;
    end = memchr(begin + *looked, '\n', left - *looked);
    *looked = left;
    if (!end)
        return NULL;
    *end = '\0';
    channel->begin += (size_t)(end - begin) + 1;
    return begin;
}

/// Waits for a line, at most until the deadline. Returns 0 or -errno.
/// - line: out: as in handover_channel_line; NULL on failure.
static int wait_for_line(struct handover_channel *channel, char **line) {
    size_t looked = 0;

    while (!(*line = extract_line(channel, &looked))) {
        ssize_t result = make_room(channel);

        if (result == 0)
            result = receive_some(channel);
        if (result == -EAGAIN)
            result = wait_for(channel, POLLIN);
        if (result < 0 && result != -EINTR)
            return (int)result;
    }
    return 0;
}

int handover_channel_line(struct handover_channel *channel, char **line, struct failure *failure) {
    const int result = wait_for_line(channel, line);

    return result < 0 ? fail(channel, result, failure) : 0;
}

int handover_channel_last_line(struct handover_channel *channel, char **line,
                               struct failure *failure) {
    int result = wait_for_line(channel, line);

    if (result == -ETIMEDOUT) {
        // From now on the other end can't send. The line may have arrived since the deadline.
        (void)shutdown(channel->fd, SHUT_RD);
        result = wait_for_line(channel, line) == 0 ? 0 : -ETIMEDOUT;
    }
    return result < 0 ? fail(channel, result, failure) : 0;
}

int handover_channel_line_if_any(struct handover_channel *channel, char **line,
                                 struct failure *failure) {
    size_t looked = 0;
    ssize_t received = make_room(channel);

    if (received == 0)
        received = receive_some(channel);
    *line = extract_line(channel, &looked);
    if (*line)
        return 0;
    if (received == -EAGAIN || received == -EINTR || received > 0)
        received = wait_clock() < channel->due_ns ? 0 : -ETIMEDOUT;
    return received < 0 ? fail(channel, (int)received, failure) : 0;
}

int handover_channel_claim(struct handover_channel *channel) {
    int fd;

    if (channel->fd_count == 0)
        return -1;
    fd = channel->fds[0];
    channel->fd_count--;
    memmove(channel->fds, channel->fds + 1, channel->fd_count * sizeof *channel->fds);
    return fd;
}

void handover_channel_close(struct handover_channel *channel) {
    for (uint32_t i = 0; i < channel->fd_count; i++)
        close(channel->fds[i]);
    if (channel->fd >= 0)
        close(channel->fd);
    free(channel->bytes);
    *channel = (struct handover_channel){.fd = -1};
}
