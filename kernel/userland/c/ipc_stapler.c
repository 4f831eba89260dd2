// SPDX-License-Identifier: GPL-2.0-or-later
// Exchange by the kernel module stapler (github.com/lukasz-wiecaszek/stapler). The module is not in
// this repository; make gets its folder as STAPLER.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "stplr.h"

#include "exchange.h"
#include "ipc.h"

#define DEVICE "/dev/stplr-0"

static int fd, ready[2];
static struct stplr_handle handle;
static pid_t server;

static void take_handle(void) {
    fd = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, STPLR_HANDLE_GET, &handle) != 0)
        fail(DEVICE);
}

static void stapler_open(size_t request_bytes, size_t answer_bytes) {
    (void)request_bytes;
    (void)answer_bytes;
    if (pipe2(ready, O_CLOEXEC) != 0)
        fail("pipe2");
}

static void stapler_serve(void) {
    pid_t self = getpid();

    take_handle();
    if (write(ready[1], &self, sizeof(self)) != sizeof(self))
        fail("write");
    for (;;) {
        struct stplr_msg in = {ipc_request_room, ipc_request_bytes},
                         out = {ipc_answer_room, ipc_answer_bytes};
        struct stplr_msg_receive receive = {.handle = handle, .rmsgs = {&in, 1}};
        if (ioctl(fd, STPLR_MSG_RECEIVE, &receive) != 0)
            fail("STPLR_MSG_RECEIVE");
        ipc_answer(ipc_request_room, ipc_answer_room);
        struct stplr_msg_reply reply = {
            .handle = handle, .pid = receive.pid, .tid = receive.tid, .rmsgs = {&out, 1}};
        if (ioctl(fd, STPLR_MSG_REPLY, &reply) != 0)
            fail("STPLR_MSG_REPLY");
    }
}

static void stapler_connect(void) {
    if (read(ready[0], &server, sizeof(server)) != sizeof(server))
        fail("read");
    take_handle();
}

static void stapler_call(const uint8_t *request, uint8_t *answer) {
    struct stplr_msg out = {(void *)request, ipc_request_bytes}, in = {answer, ipc_answer_bytes};
    struct stplr_msg_send_receive call = {
        .handle = handle, .pid = server, .tid = server, .smsgs = {&out, 1}, .rmsgs = {&in, 1}};

    if (ioctl(fd, STPLR_MSG_SEND_RECEIVE, &call) != 0)
        fail("STPLR_MSG_SEND_RECEIVE");
}

const struct way way = {stapler_open, stapler_serve, stapler_connect, stapler_call};
