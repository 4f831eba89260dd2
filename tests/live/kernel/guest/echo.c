// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the module `twinwall_echo`: its replies, and its resistance to abuse by any user.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "netlink.h"
#include "twinwall_lab.h"

#define KLOG_READ_ALL 3

static uint8_t pattern[TWINWALL_LAB_DATA_MOST + 1];

static int family(int fd) {
    int number = family_of(fd, TWINWALL_LAB_FAMILY, NULL);

    CHECK(number > 0);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = i * 31 + i / 256;
    return number;
}

/// Sends an echo request of `length` bytes. Returns the error of the ACK: 0 or -errno. If it is 0,
/// checks the reply.
static int echo(int fd, int number, size_t length, struct reply *reply) {
    struct request request;

    request_begin(&request, number, NLM_F_ACK, TWINWALL_LAB_C_ECHO);
    request_attribute(&request, TWINWALL_LAB_A_DATA, pattern, length);
    CHECK_EQUAL(request_send(fd, &request), 0);
    reply_read(fd, reply);
    if (reply->error == 0) {
        const struct nlattr *data =
            attribute_of(request_header(&reply->answer), TWINWALL_LAB_A_DATA);
        CHECK_EQUAL(reply->type, number);
        CHECK_EQUAL(reply->command, TWINWALL_LAB_C_ECHO);
        CHECK_EQUAL(reply->sequence, request_header(&request)->nlmsg_seq);
        CHECK(data && data->nla_len == NLA_HDRLEN + length);
        CHECK(memcmp(data + 1, pattern, length) == 0);
    }
    return reply->error;
}

static void echo_gives_back(void) {
    const size_t lengths[] = {1, 2, 3, 53, 1400, 3800, 4096, 9000, 32000, 32767, 32768};
    int fd = netlink_open(), number = family(fd);
    struct reply reply;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        CHECK_EQUAL(echo(fd, number, lengths[i], &reply), 0);
}

/// Checks that the module loses no memory in 2,000 failed or large echoes: a loss of 8 KiB in each
/// would show.
static void echo_keeps_no_memory(void) {
    int fd = netlink_open(), number = family(fd);
    struct reply reply;
    long long before = 0;

    for (int i = 0; i < 2200; i++) {
        if (i == 200)
            before = proc_value("/proc/meminfo", "SUnreclaim:");
        echo(fd, number, i % 2 ? 9000 : sizeof(pattern), &reply);
    }
    long long grown = proc_value("/proc/meminfo", "SUnreclaim:") - before;
    /* In a debug kernel kmemleak finds lost memory. */
    if (grown > 4096 && !guest_debug_kernel)
        guest_fail(__FILE__, __LINE__, "2000 echoes keep %lld KiB", grown);
}

struct refusal {
    uint8_t command;
    uint16_t attribute;
    uint16_t length;
    uint16_t flags;
    int error;
    uint32_t missing;
};

static void echo_refuses_alike(void) {
    static const struct refusal refusals[] = {
        {TWINWALL_LAB_C_ECHO, 0, 0, 0, -EINVAL, TWINWALL_LAB_A_DATA},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_DATA, 0, 0, -ERANGE, 0},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_DATA, TWINWALL_LAB_DATA_MOST + 1, 0, -ERANGE, 0},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_INDEX, 4, 0, -EINVAL, 0},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_PARTS, 3, 0, -EINVAL, 0},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_END, 4, 0, -EINVAL, 0},
        {TWINWALL_LAB_C_ECHO, TWINWALL_LAB_A_END + 1, 4, 0, -EINVAL, 0},
        {TWINWALL_LAB_C_ECHO, 1000, 4, 0, -EINVAL, 0},
        {TWINWALL_LAB_C_COUNT, 0, 0, NLM_F_DUMP, -EINVAL, 0},
        {TWINWALL_LAB_C_COUNT, TWINWALL_LAB_A_PARTS, 4, 0, -EOPNOTSUPP, 0},
        {TWINWALL_LAB_C_TOUCH, 0, 0, 0, -EPERM, 0},
        {TWINWALL_LAB_C_TOUCH + 1, 0, 0, 0, -EOPNOTSUPP, 0},
        {TWINWALL_LAB_C_UNSPEC, 0, 0, 0, -EOPNOTSUPP, 0},
    };
    int fd = netlink_open(), number = family(fd);
    struct request request;
    struct reply reply;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *refusal = &refusals[i];

        request_begin(&request, number, NLM_F_ACK | refusal->flags, refusal->command);
        if (refusal->attribute)
            request_attribute(&request, refusal->attribute, pattern, refusal->length);
        CHECK_EQUAL(request_send(fd, &request), 0);
        reply_read(fd, &reply);
        if (reply.error != refusal->error || reply.missing != refusal->missing || reply.type)
            guest_fail(__FILE__, __LINE__, "row %zu: error %d, missing %u, answer %u", i,
                       reply.error, reply.missing, reply.type);
    }
}

static void echo_names_its_last_attribute(void) {
    uint32_t most = 0;

    CHECK(family_of(netlink_open(), TWINWALL_LAB_FAMILY, &most) > 0);
    CHECK_EQUAL(most, TWINWALL_LAB_A_END - 1);
}

static void begin_dump(int fd, int number, uint32_t parts) {
    struct request request;

    request_begin(&request, number, NLM_F_DUMP, TWINWALL_LAB_C_COUNT);
    request_attribute(&request, TWINWALL_LAB_A_PARTS, &parts, sizeof(parts));
    CHECK_EQUAL(request_send(fd, &request), 0);
}

struct dump {
    uint32_t parts;
    uint32_t reads;
    bool interrupted;
    bool done;
};

/// Receives one datagram of a dump. Fails unless the indexes of its parts are consecutive.
static void read_dump(int fd, struct dump *dump) {
    static _Alignas(NLMSG_ALIGNTO) uint8_t bytes[32768];
    ssize_t length = recv(fd, bytes, sizeof(bytes), MSG_TRUNC);
    struct nlmsghdr *header = (struct nlmsghdr *)bytes;

    if (length <= 0)
        guest_fail(__FILE__, __LINE__, "part %u: %s", dump->parts, strerror(errno));
    CHECK(length <= (ssize_t)sizeof(bytes));
    dump->reads++;
    for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
        uint32_t index;

        CHECK(header->nlmsg_type != NLMSG_ERROR);
        dump->interrupted |= header->nlmsg_flags & NLM_F_DUMP_INTR;
        if (header->nlmsg_type == NLMSG_DONE) {
            dump->done = true;
            continue;
        }
        CHECK(header->nlmsg_flags & NLM_F_MULTI);
        memcpy(&index, attribute_of(header, TWINWALL_LAB_A_INDEX) + 1, sizeof(index));
        CHECK_EQUAL(index, dump->parts);
        dump->parts++;
    }
}

static struct dump whole_dump(int fd, int number, uint32_t parts) {
    struct dump dump = {0};

    begin_dump(fd, number, parts);
    while (!dump.done)
        read_dump(fd, &dump);
    CHECK_EQUAL(dump.parts, parts);
    return dump;
}

static void echo_dumps_all_parts(void) {
    int fd = netlink_open(), number = family(fd);

    CHECK_EQUAL(whole_dump(fd, number, 1).reads, 1);
    CHECK_EQUAL(whole_dump(fd, number, 3).reads, 1);
    /* The kernel returns as much per read as was read before: 4 reads with a new socket. */
    fd = netlink_open();
    CHECK(whole_dump(fd, number, 3000).reads <= 4);
    CHECK(!whole_dump(fd, number, 20000).interrupted);
}

static void one_dump(void *unused) {
    int fd = netlink_open();

    (void)unused;
    whole_dump(fd, family(fd), 3);
}

/// Checks that dumps that are not read to their end block neither this process nor another.
static void echo_dump_left_unread(void) {
    int first = netlink_open(), second = netlink_open(), number = family(first);

    begin_dump(first, number, 1000000);
    pid_t other = spawn(one_dump, NULL);
    CHECK_EQUAL(join(other), 0);
    begin_dump(second, number, 1000000);
    close(first);
    one_dump(NULL);
}

static void echo_dump_of_a_killed_reader(void) {
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            int fd = netlink_open();
            struct dump dump = {0};
            begin_dump(fd, family(fd), 1000000);
            while (!dump.done)
                read_dump(fd, &dump);
            _exit(0);
        }
        sleep_ms(i);
        kill(pid, SIGKILL);
        join(pid);
    }
    one_dump(NULL);
}

/// Checks that a reader that repeatedly falls behind receives all of a million parts.
static void echo_dump_of_a_slow_reader(void) {
    int fd = netlink_open(), number = family(fd);
    struct dump dump = {0};

    begin_dump(fd, number, TWINWALL_LAB_PARTS_MOST);
    while (!dump.done) {
        read_dump(fd, &dump);
        if (dump.reads % 100 == 0)
            sleep_ms(20);
    }
    CHECK_EQUAL(dump.parts, TWINWALL_LAB_PARTS_MOST);
    CHECK(!dump.interrupted);
}

static void echo_dump_interrupted(void) {
    int fd = netlink_open(), other = netlink_open(), number = family(fd);
    struct dump dump = {0};
    struct request request;
    struct reply reply;

    begin_dump(fd, number, TWINWALL_LAB_PARTS_MOST);
    read_dump(fd, &dump);
    CHECK(!dump.interrupted);
    request_begin(&request, number, NLM_F_ACK, TWINWALL_LAB_C_TOUCH);
    CHECK_EQUAL(request_send(other, &request), 0);
    reply_read(other, &reply);
    CHECK_EQUAL(reply.error, 0);
    while (!dump.done)
        read_dump(fd, &dump);
    CHECK(dump.interrupted);
    CHECK_EQUAL(dump.parts, TWINWALL_LAB_PARTS_MOST);
}

static void echo_says_nothing(void) {
    static char before[1 << 16], after[1 << 16];
    int fd = netlink_open(), number = family(fd);
    struct reply reply;

    int length = klogctl(KLOG_READ_ALL, before, sizeof(before));
    CHECK(length >= 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(echo(fd, number, 53, &reply), 0);
    CHECK_EQUAL(klogctl(KLOG_READ_ALL, after, sizeof(after)), length);
    CHECK(memcmp(before, after, length) == 0);
}

static void many_echoes(void *unused) {
    int fd = netlink_open(), number = family(fd);
    struct reply reply;

    (void)unused;
    for (int i = 0; i < 500; i++) {
        CHECK_EQUAL(echo(fd, number, 1 + i * 37 % 5000, &reply), 0);
        if (i % 50 == 0)
            whole_dump(fd, number, 2000);
    }
}

static void echo_on_both_processors(void) {
    pid_t pids[4];

    for (int i = 0; i < 4; i++)
        pids[i] = spawn(many_echoes, NULL);
    for (int i = 0; i < 4; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK_EQUAL(status, 0);
    }
}

/// Sends messages with random bytes in their headers and attributes; the length and the type of the
/// message stay valid. Checks that a dump still succeeds.
static void echo_of_garbage(void) {
    int fd = netlink_open(), number = family(fd);
    struct request request;
    uint32_t random = 1;

    for (int i = 0; i < 3000; i++) {
        request_begin(&request, number, i % 3 ? 0 : NLM_F_DUMP, i % 5);
        request_attribute(&request, i % 7, pattern, i % 400);
        size_t length = request_header(&request)->nlmsg_len;
        for (int j = 0; j < 4; j++) {
            random = random * 1664525 + 1013904223;
            /* Not the type: this test does not cover other families. */
            size_t at = 6 + (random >> 8) % (length - 6);
            request.bytes[at] = random >> 24;
        }
        send(fd, request.bytes, length, MSG_DONTWAIT);
        while (recv(fd, request.bytes, sizeof(request.bytes), MSG_DONTWAIT) > 0)
            ;
        if (i % 100 == 0) {
            close(fd);
            fd = netlink_open();
        }
    }
    one_dump(NULL);
}

const struct guest_test echo_tests[] = {
    {"echo_gives_back", echo_gives_back, false},
    {"echo_keeps_no_memory", echo_keeps_no_memory, false},
    {"echo_refuses_alike", echo_refuses_alike, false},
    {"echo_names_its_last_attribute", echo_names_its_last_attribute, false},
    {"echo_dumps_all_parts", echo_dumps_all_parts, false},
    {"echo_dump_left_unread", echo_dump_left_unread, false},
    {"echo_dump_of_a_killed_reader", echo_dump_of_a_killed_reader, false},
    {"echo_dump_of_a_slow_reader", echo_dump_of_a_slow_reader, false},
    {"echo_dump_interrupted", echo_dump_interrupted, true},
    {"echo_says_nothing", echo_says_nothing, true},
    {"echo_on_both_processors", echo_on_both_processors, false},
    {"echo_of_garbage", echo_of_garbage, false},
    {0},
};
