// SPDX-License-Identifier: GPL-2.0-or-later
// One copy of a request without a module: the caller sends its request's address by a seqpacket
// socket, and the server reads the request there.
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "exchange.h"
#include "ipc.h"

static int ends[2];

static void vm_open(size_t request_bytes, size_t answer_bytes) {
    (void)request_bytes;
    (void)answer_bytes;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair");
}

static void vm_serve(void) {
    struct iovec there, here = {ipc_request_room, ipc_request_bytes};

    for (;;) {
        if (recv(ends[1], &there, sizeof(there), 0) != sizeof(there))
            fail("recv");
        /* With an untrusted caller, address and length would have to be checked here. */
        if (process_vm_readv(ipc_caller, &here, 1, &there, 1, 0) != (ssize_t)ipc_request_bytes)
            fail("process_vm_readv");
        ipc_answer(ipc_request_room, ipc_answer_room);
        if (send(ends[1], ipc_answer_room, ipc_answer_bytes, 0) != (ssize_t)ipc_answer_bytes)
            fail("send");
    }
}

static void vm_call(const uint8_t *request, uint8_t *answer) {
    struct iovec where = {(void *)request, ipc_request_bytes};

    if (send(ends[0], &where, sizeof(where), 0) != sizeof(where))
        fail("send");
    if (recv(ends[0], answer, ipc_answer_bytes, 0) != (ssize_t)ipc_answer_bytes)
        fail("recv");
}

const struct way way = {vm_open, vm_serve, NULL, vm_call};
