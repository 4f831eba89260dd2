// SPDX-License-Identifier: GPL-2.0-or-later
// Exchange by the lab's kernel module twinwall_message: the server answers and waits in one system
// call.
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exchange.h"
#include "ipc.h"
#include "twinwall_message.h"

#define QUEUE 16

static int server_fd, client_fd;

static int device(void) {
    int fd = open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        fail(TWINWALL_MESSAGE_PATH);
    return fd;
}

static void message_open(size_t request_bytes, size_t answer_bytes) {
    struct twinwall_bind bind = {.port = getpid(), .queue = QUEUE};
    struct twinwall_connect connect = {.port = getpid()};

    (void)request_bytes;
    (void)answer_bytes;
    server_fd = device();
    client_fd = device();
    if (ioctl(server_fd, TWINWALL_MESSAGE_BIND, &bind) != 0)
        fail("TWINWALL_MESSAGE_BIND");
    if (ioctl(client_fd, TWINWALL_MESSAGE_CONNECT, &connect) != 0)
        fail("TWINWALL_MESSAGE_CONNECT");
}

static void message_serve(void) {
    struct twinwall_part room = {(uintptr_t)ipc_request_room, ipc_request_bytes};
    struct twinwall_part answer = {(uintptr_t)ipc_answer_room, ipc_answer_bytes};
    struct twinwall_receive receive = {.answer_parts = (uintptr_t)&answer,
                                       .answer_part_count = 1,
                                       .room = (uintptr_t)&room,
                                       .room_count = 1};

    while (ioctl(server_fd, TWINWALL_MESSAGE_RECEIVE, &receive) == 0)
        ipc_answer(ipc_request_room, ipc_answer_room);
    fail("TWINWALL_MESSAGE_RECEIVE");
}

static void message_connect(void) { close(server_fd); }

static void message_call(const uint8_t *request, uint8_t *answer) {
    struct twinwall_part out = {(uintptr_t)request, ipc_request_bytes};
    struct twinwall_part in = {(uintptr_t)answer, ipc_answer_bytes};
    struct twinwall_call call = {.parts = (uintptr_t)&out,
                                 .part_count = 1,
                                 .answer_room = (uintptr_t)&in,
                                 .answer_room_count = 1};

    if (ioctl(client_fd, TWINWALL_MESSAGE_CALL, &call) != 0)
        fail("TWINWALL_MESSAGE_CALL");
}

const struct way way = {message_open, message_serve, message_connect, message_call};
