// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: recvmsg
#include "control/proof.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int control_proof_make_socket(void) {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);

    return fd < 0 ? -errno : fd;
}

/// Makes the kernel report the sender of messages, and binds the socket.
/// - port: out: netlink port of the socket.
/// - Returns 0 or -errno.
static int bind_socket(int fd, uint32_t *port) {
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    socklen_t length = sizeof address;
    const int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return -errno;
    *port = address.nl_pid;
    return 0;
}

int control_proof_open(struct control_proof *proof, struct failure *failure) {
    struct control_proof made = {.fd = control_proof_make_socket()};
    const int result = made.fd < 0 ? made.fd : bind_socket(made.fd, &made.port);

    if (result < 0) {
        failure_set_start(failure, "the socket for proofs", -result);
        if (made.fd >= 0)
            close(made.fd);
        return result;
    }
    *proof = made;
    return 0;
}

/// Parses a decimal number. Returns 0 or -EINVAL.
static int parse_number(const char *text, uint64_t *number) {
    char *end;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno != 0 || *end != '\0' ? -EINVAL : 0;
}

/// Returns the process that sent a message, as the kernel reports it; 0 if the kernel reports none,
/// or if it is not visible in this pid namespace.
static pid_t sender_of(struct msghdr *message) {
    struct ucred sender;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS ||
            part->cmsg_len < CMSG_LEN(sizeof sender))
            continue;
        memcpy(&sender, CMSG_DATA(part), sizeof sender);
        return sender.pid;
    }
    return 0;
}

/// Receives a message.
/// - came: out: the proof that the sender has CAP_NET_ADMIN; pid 0 = the message is no proof.
/// - Returns 0, or -errno (-EAGAIN: there is no message).
static int receive(const struct control_proof *proof, struct proof *came) {
    char text[CONTROL_PROOF_BYTES + 1] = "";
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec vector = {.iov_base = text, .iov_len = CONTROL_PROOF_BYTES};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};

    *came = (struct proof){.pid = 0};
    if (recvmsg(proof->fd, &message, MSG_DONTWAIT) < 0)
        return -errno;
    if (parse_number(text, &came->number) == 0)
        came->pid = sender_of(&message);
    return 0;
}

static bool is_kept(const struct control_proof *proof, const struct proof *wanted) {
    for (uint32_t i = 0; i < CONTROL_PROOFS_MAX && i < proof->count; i++)
        if (proof->came[i].pid == wanted->pid && proof->came[i].number == wanted->number)
            return true;
    return false;
}

bool control_proof_has_come(struct control_proof *proof, const struct proof *wanted) {
    for (;;) {
        struct proof came;
        const int result = receive(proof, &came);

        if (result == 0 && came.pid > 0)
            proof->came[proof->count++ % CONTROL_PROOFS_MAX] = came;
        if (result < 0 && result != -EINTR && result != -ENOBUFS)
            return is_kept(proof, wanted);
    }
}

void control_proof_close(struct control_proof *proof) { close(proof->fd); }
