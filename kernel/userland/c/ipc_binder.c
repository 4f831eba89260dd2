// SPDX-License-Identifier: GPL-2.0-or-later
// binder without a library: the driver of Android's messages, a module of Debian's generic kernel.
// The server is the context manager, so no handle has to be looked up. The kernel copies a request
// once, to memory of the server that it maps; likewise an answer.
#include <errno.h>
#include <fcntl.h>
#include <linux/android/binder.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"
#include "ipc.h"

#define DEVICE "/dev/binder"
/// Size of the driver's mapping in this process, which holds received messages: the largest
/// request, with spare room.
#define MAP_BYTES (2 << 20)
/// The context manager's handle.
#define MANAGER 0
/// Maximum retries to become the context manager, in total one second.
#define MANAGER_TRIES 1000

/// Data of one write to the driver: the release of the last received message's memory, and a
/// message to send.
struct commands {
    uint32_t free_command;
    binder_uintptr_t free_buffer;
    uint32_t command;
    struct binder_transaction_data data;
} __attribute__((packed));

static int fd, ready[2];
/// Memory of the last received message, which the next sent message releases; 0 before the first.
static binder_uintptr_t held;

static void exchange_with_driver(const void *out, size_t out_bytes, void *in, size_t in_bytes,
                                 size_t *came) {
    struct binder_write_read both = {.write_buffer = (uintptr_t)out,
                                     .write_size = out_bytes,
                                     .read_buffer = (uintptr_t)in,
                                     .read_size = in_bytes};

    while (ioctl(fd, BINDER_WRITE_READ, &both) != 0)
        if (errno != EINTR)
            fail("BINDER_WRITE_READ");
    if (came)
        *came = both.read_consumed;
}

/// Sends a message unless `out` is NULL, and waits for a message of kind `wanted`.
static struct binder_transaction_data receive(const struct commands *out, uint32_t wanted) {
    /* Before an end's first message there is no memory to release. */
    size_t skipped = out == NULL || held != 0 ? 0 : offsetof(struct commands, command);
    size_t out_bytes = out == NULL ? 0 : sizeof(*out) - skipped, came;
    uint8_t in[256];

    for (;;) {
        exchange_with_driver((const uint8_t *)out + skipped, out_bytes, in, sizeof(in), &came);
        out_bytes = 0;
        for (size_t at = 0; at + sizeof(uint32_t) <= came;) {
            struct binder_transaction_data data;
            uint32_t command;
            memcpy(&command, in + at, sizeof(command));
            at += sizeof(command);
            if (command == wanted && at + sizeof(data) <= came) {
                memcpy(&data, in + at, sizeof(data));
                return data;
            }
            if (command != BR_NOOP && command != BR_TRANSACTION_COMPLETE)
                fail_because("binder", "the message has failed");
            at += _IOC_SIZE(command);
        }
    }
}

/// Builds the data of one write: the release of the last received message's memory, and a message
/// of `length` bytes to send.
/// - command: BC_TRANSACTION (a request) or BC_REPLY (an answer).
static struct commands message(uint32_t command, const uint8_t *bytes, size_t length) {
    return (struct commands){
        .free_command = BC_FREE_BUFFER,
        .free_buffer = held,
        .command = command,
        .data = {.target.handle = MANAGER,
                 .data_size = length,
                 .data.ptr.buffer = (uintptr_t)bytes},
    };
}

/// Opens the device. Each process opens the device itself, since the descriptor belongs to its
/// opener.
static void open_device(void) {
    struct binder_version version;

    fd = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, BINDER_VERSION, &version) != 0)
        fail(DEVICE);
    if (version.protocol_version != BINDER_CURRENT_PROTOCOL_VERSION)
        fail_because("binder", "another version of its protocol");
    if (mmap(NULL, MAP_BYTES, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0) == MAP_FAILED)
        fail("mmap of binder's memory");
}

/// Becomes the context manager. Retries, since the driver forgets a former manager with a delay.
static void become_manager(void) {
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int tries = 0; ioctl(fd, BINDER_SET_CONTEXT_MGR, 0) != 0; tries++) {
        if (errno != EBUSY || tries == MANAGER_TRIES)
            fail("BINDER_SET_CONTEXT_MGR");
        nanosleep(&pause, NULL);
    }
}

static void binder_open(size_t request_bytes, size_t answer_bytes) {
    (void)request_bytes;
    (void)answer_bytes;
    if (pipe2(ready, O_CLOEXEC) != 0)
        fail("pipe2");
}

static void binder_serve(void) {
    uint32_t enter = BC_ENTER_LOOPER;
    struct binder_transaction_data request;

    open_device();
    become_manager();
    exchange_with_driver(&enter, sizeof(enter), NULL, 0, NULL);
    if (write(ready[1], "r", 1) != 1)
        fail("write");
    request = receive(NULL, BR_TRANSACTION);
    for (;;) {
        if (request.data_size != ipc_request_bytes)
            fail_because("binder", "a request of another length");
        ipc_answer((const uint8_t *)(uintptr_t)request.data.ptr.buffer, ipc_answer_room);
        held = request.data.ptr.buffer;
        struct commands answer = message(BC_REPLY, ipc_answer_room, ipc_answer_bytes);
        request = receive(&answer, BR_TRANSACTION);
    }
}

static void binder_connect(void) {
    char byte;

    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        fail_because("the server", "has ended");
    open_device();
}

static void binder_call(const uint8_t *request, uint8_t *answer) {
    struct commands out = message(BC_TRANSACTION, request, ipc_request_bytes);
    struct binder_transaction_data in = receive(&out, BR_REPLY);

    if (in.data_size != ipc_answer_bytes)
        fail_because("binder", "an answer of another length");
    memcpy(answer, (const void *)(uintptr_t)in.data.ptr.buffer, ipc_answer_bytes);
    held = in.data.ptr.buffer;
}

const struct way way = {binder_open, binder_serve, binder_connect, binder_call};
