// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the modules when a memory allocation fails, or user memory can't be read.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest.h"
#include "inject.h"
#include "message.h"
#include "netlink.h"
#include "twinwall_lab.h"

#define LARGE 200000

static uint8_t bytes[LARGE], room[LARGE];

static int netlink, family;

static void ask(uint16_t flags, uint8_t command, uint16_t type, const void *data, size_t length) {
    struct request request;

    request_begin(&request, family, flags, command);
    request_attribute(&request, type, data, length);
    /* The reply is discarded: `check` requests it again without faults. */
    request_send(netlink, &request);
    while (recv(netlink, room, sizeof(room), MSG_DONTWAIT) > 0)
        ;
}

static void echo_once(void) { ask(0, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_DATA, bytes, 9000); }

static void dump_once(void) {
    uint32_t parts = 100;

    ask(NLM_F_DUMP, TWINWALL_LAB_C_COUNT, TWINWALL_LAB_A_PARTS, &parts, sizeof(parts));
}

static void check_echo(void) {
    struct request request;
    struct reply reply;

    close(netlink);
    netlink = netlink_open();
    request_begin(&request, family, NLM_F_ACK, TWINWALL_LAB_C_ECHO);
    request_attribute(&request, TWINWALL_LAB_A_DATA, bytes, 53);
    CHECK_EQUAL(request_send(netlink, &request), 0);
    reply_read(netlink, &reply);
    CHECK_EQUAL(reply.error, 0);
}

static void echo_without_memory(void) {
    netlink = netlink_open();
    family = family_of(netlink, TWINWALL_LAB_FAMILY, NULL);
    with_faults(echo_once, check_echo);
    with_faults(dump_once, check_echo);
}

static int client;
static size_t length;

/// Checks that a request's result is no error, or one that a fault may cause.
static void check_result(long result) {
    if (result < 0 && result != -ENOMEM && result != -EFAULT && result != -ENOBUFS)
        guest_fail(__FILE__, __LINE__, "result %ld", result);
}

static void call_once(void) { check_result(message_call(client, bytes, length, room, length, 5)); }

static void check_call(void) {
    CHECK_EQUAL(message_call(client, bytes, length, room, length, 5), (long)length);
}

static void open_once(void) {
    int fd = open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    check_result(message_bind(fd, PORT + 1, 4, 0));
    close(fd);
    fd = open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    check_result(message_connect(fd, PORT));
    close(fd);
}

static void serve(void *fd) { serve_echo(*(int *)fd); }

static void message_without_memory(void) {
    const size_t lengths[] = {64, 3000, LARGE};
    int server = server_open(16);
    pid_t pid = spawn(serve, &server);

    client = client_open();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        length = lengths[i];
        with_faults(call_once, check_call);
    }
    with_faults(open_once, check_call);
    kill(pid, SIGKILL);
    join(pid);
}

static int server;

/// Sends and receives a one-way message, so that a single task is both ends.
static void receive_once(void) {
    struct twinwall_receive taken;

    check_result(message_send(client, bytes, length));
    long result = message_take(server, room, sizeof(room), 0.05, &taken);
    if (result != -ETIMEDOUT)
        check_result(result);
}

static void check_receive(void) {
    struct twinwall_receive taken;

    while (message_take(server, room, sizeof(room), 0.001, &taken) == 0)
        ;
    CHECK_EQUAL(message_send(client, bytes, length), 0);
    CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    CHECK_EQUAL(taken.length, (long long)length);
}

static void message_received_without_memory(void) {
    server = server_open(16);
    client = client_open();
    for (length = 64; length < 10000; length += 6000)
        with_faults(receive_once, check_receive);
}

const struct guest_test fault_tests[] = {
    {"echo_without_memory", echo_without_memory, false},
    {"message_without_memory", message_without_memory, false},
    {"message_received_without_memory", message_received_without_memory, false},
    {0},
};
