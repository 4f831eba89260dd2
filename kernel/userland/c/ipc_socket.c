// SPDX-License-Identifier: GPL-2.0-or-later
// Sockets: UNIX stream and seqpacket, TCP over loopback; and two pipes. Built once for each value
// of WAY.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"
#include "ipc.h"

#define WAY_STREAM 1
#define WAY_SEQPACKET 2
#define WAY_TCP 3
#define WAY_PIPE 4

/// Size of a UNIX socket's send buffer: the largest request, including the kernel's overhead.
#define BUFFER_BYTES (4 << 20)

/// Read and write ends of the caller [0] and of the server [1].
static int in[2], out[2];

static void set_buffers(int fd) {
    int bytes = BUFFER_BYTES;

    /* Exceeding the limit needs a privilege; the permitted size suffices except for the largest
     * packets. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static void open_unix(int type) {
    int pair[2];

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) != 0)
        fail("socketpair");
    for (int i = 0; i < 2; i++) {
        set_buffers(pair[i]);
        in[i] = out[i] = pair[i];
    }
}

static void open_tcp(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        fail("listen");
    in[0] = out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (in[0] < 0 || connect(in[0], (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("connect");
    in[1] = out[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (in[1] < 0)
        fail("accept");
    for (int i = 0; i < 2; i++)
        setsockopt(in[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    close(listener);
}

static void open_pipes(void) {
    int there[2], back[2];

    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
        fail("pipe2");
    /* The largest request needs the default limit of /proc/sys/fs/pipe-max-size. */
    fcntl(there[1], F_SETPIPE_SZ, 1 << 20);
    out[0] = there[1];
    in[1] = there[0];
    out[1] = back[1];
    in[0] = back[0];
}

static void socket_open(size_t request_bytes, size_t answer_bytes) {
    (void)request_bytes;
    (void)answer_bytes;
    if (WAY == WAY_TCP)
        open_tcp();
    else if (WAY == WAY_PIPE)
        open_pipes();
    else
        open_unix(WAY == WAY_STREAM ? SOCK_STREAM : SOCK_SEQPACKET);
}

static void give(int fd, const uint8_t *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t part = WAY == WAY_PIPE ? write(fd, bytes + done, length - done)
                                       : send(fd, bytes + done, length - done, MSG_NOSIGNAL);
        if (part <= 0)
            fail("send");
        done += part;
    }
}

static void take(int fd, uint8_t *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t part = WAY == WAY_PIPE ? read(fd, bytes + done, length - done)
                                       : recv(fd, bytes + done, length - done, MSG_WAITALL);
        if (part <= 0)
            fail("recv");
        done += part;
    }
}

static void socket_serve(void) {
    for (;;) {
        take(in[1], ipc_request_room, ipc_request_bytes);
        ipc_answer(ipc_request_room, ipc_answer_room);
        give(out[1], ipc_answer_room, ipc_answer_bytes);
    }
}

static void socket_call(const uint8_t *request, uint8_t *answer) {
    give(out[0], request, ipc_request_bytes);
    take(in[0], answer, ipc_answer_bytes);
}

const struct way way = {socket_open, socket_serve, NULL, socket_call};
