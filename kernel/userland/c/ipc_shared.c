// SPDX-License-Identifier: GPL-2.0-or-later
// Shared memory: the caller copies its request in, and the server reads it in place. Wake-up is by
// a futex, an eventfd, or a message between io_urings (MSG_RING). Built once for each value of WAY.
#include <liburing.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exchange.h"
#include "ipc.h"

#define WAY_FUTEX 1
#define WAY_EVENTFD 2
#define WAY_RING 3

#define CALLER 0
#define SERVER 1
#define RING_ENTRIES 8
#define LINE_BYTES 64

struct shared {
    _Alignas(LINE_BYTES) uint32_t turns[2];
    _Alignas(LINE_BYTES) uint8_t answer[1024];
    _Alignas(LINE_BYTES) uint8_t request[];
};

static struct shared *shared;
static int events[2];
static struct io_uring rings[2];
/// Number of turns that this process has waited for (in the server: requests; in the caller:
/// answers); counted only for WAY_FUTEX.
static uint32_t seen;

static void shared_open(size_t request_bytes, size_t answer_bytes) {
    if (answer_bytes > sizeof(shared->answer))
        fail_because("answer", "too long");
    shared = mmap(NULL, sizeof(*shared) + request_bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    for (int i = 0; i < 2; i++) {
        events[i] = eventfd(0, EFD_CLOEXEC);
        if (events[i] < 0)
            fail("eventfd");
        int error = WAY == WAY_RING ? io_uring_queue_init(RING_ENTRIES, &rings[i], 0) : 0;
        if (error < 0)
            fail_because("io_uring_queue_init", strerror(-error));
    }
}

static void wait_turn(int end) {
    uint64_t count;

    if (WAY == WAY_FUTEX) {
        while (__atomic_load_n(&shared->turns[end], __ATOMIC_ACQUIRE) == seen)
            syscall(SYS_futex, &shared->turns[end], FUTEX_WAIT, seen, NULL, NULL, 0);
        seen++;
    } else if (WAY == WAY_EVENTFD) {
        if (read(events[end], &count, sizeof(count)) != sizeof(count))
            fail("read of an eventfd");
    } else {
        struct io_uring_cqe *cqe;
        int error = io_uring_wait_cqe(&rings[end], &cqe);
        if (error < 0 || cqe->res < 0)
            fail_because("MSG_RING", strerror(error < 0 ? -error : -cqe->res));
        io_uring_cqe_seen(&rings[end], cqe);
    }
}

static void wake(int end) {
    uint64_t one = 1;

    if (WAY == WAY_FUTEX) {
        __atomic_add_fetch(&shared->turns[end], 1, __ATOMIC_RELEASE);
        if (syscall(SYS_futex, &shared->turns[end], FUTEX_WAKE, 1, NULL, NULL, 0) < 0)
            fail("FUTEX_WAKE");
    } else if (WAY == WAY_EVENTFD) {
        if (write(events[end], &one, sizeof(one)) != sizeof(one))
            fail("write to an eventfd");
    } else {
        struct io_uring *own = &rings[!end];
        struct io_uring_sqe *sqe = io_uring_get_sqe(own);
        io_uring_prep_msg_ring(sqe, rings[end].ring_fd, 0, 0, 0);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        /* One system call sends and waits; wait_turn then finds the completion. */
        if (io_uring_submit_and_wait(own, 1) < 0)
            fail("io_uring_enter");
    }
}

static void shared_serve(void) {
    for (;;) {
        wait_turn(SERVER);
        ipc_answer(shared->request, shared->answer);
        wake(CALLER);
    }
}

static void shared_call(const uint8_t *request, uint8_t *answer) {
    memcpy(shared->request, request, ipc_request_bytes);
    wake(SERVER);
    wait_turn(CALLER);
    memcpy(answer, shared->answer, ipc_answer_bytes);
}

const struct way way = {shared_open, shared_serve, NULL, shared_call};
