// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the module `twinwall_message`: calls, answers, refusals, limits, waiting.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "message.h"

static uint8_t bytes[TWINWALL_MESSAGE_BYTES_MOST + 4096], room[TWINWALL_MESSAGE_BYTES_MOST];

static void fill(void) {
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i * 131 + i / 4096;
}

static void serve(void *fd) { serve_echo(*(int *)fd); }

static pid_t echo_server(void) {
    int fd = server_open(16);
    pid_t pid = spawn(serve, &fd);

    close(fd);
    return pid;
}

static void end_server(pid_t pid) {
    kill(pid, SIGKILL);
    join(pid);
}

static void message_echoes_every_length(void) {
    const size_t lengths[] = {
        0,    1,    64,   255,   256,   257,   4095,    4096,
        4097, 8192, 8193, 12288, 65536, 65537, 1000000, TWINWALL_MESSAGE_BYTES_MOST};
    pid_t server = echo_server();
    int fd = client_open();

    fill();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (size_t offset = 0; offset < 3; offset++) {
            memset(room, 0, sizeof(room));
            CHECK_EQUAL(message_call(fd, bytes + offset, lengths[i], room, sizeof(room), 5),
                        lengths[i]);
            CHECK(memcmp(room, bytes + offset, lengths[i]) == 0);
            CHECK(lengths[i] == sizeof(room) || room[lengths[i]] == 0);
        }
    /* Room of exactly the needed size, small and large. */
    CHECK_EQUAL(message_call(fd, bytes, 64, room, 64, 5), 64);
    CHECK_EQUAL(message_call(fd, bytes, 65536, room, 65536, 5), 65536);
    end_server(server);
}

static void message_in_parts(void) {
    pid_t server = echo_server();
    int fd = client_open();
    struct twinwall_part out[16], in[16];
    struct twinwall_call call = {.parts = (uintptr_t)out,
                                 .part_count = 16,
                                 .answer_room = (uintptr_t)in,
                                 .answer_room_count = 16,
                                 .deadline_ns = deadline_in(5)};
    const size_t sizes[] = {1, 10, 700, 4096, 20000};

    fill();
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        memset(room, 0, sizeof(room));
        for (int i = 0; i < 16; i++) {
            out[i] = (struct twinwall_part){(uintptr_t)bytes + i * (sizes[s] + 13), sizes[s]};
            /* The answer is split at other places; the last part has room for the rest. */
            in[i] = (struct twinwall_part){(uintptr_t)room + i * 12000,
                                           i == 15 ? 400000 : sizes[s] / 2 + i};
        }
        CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, &call) == 0);
        CHECK_EQUAL(call.answer_length, 16 * sizes[s]);
        size_t at = 0;
        for (int i = 0; i < 16; i++)
            for (size_t j = 0; j < in[i].length && at < call.answer_length; j++, at++) {
                const uint8_t *sent = (const uint8_t *)(uintptr_t)out[at / sizes[s]].address;
                CHECK_EQUAL(room[i * 12000 + j], sent[at % sizes[s]]);
            }
    }
    end_server(server);
}

static void message_over_its_limits(void) {
    int server = server_open(4), fd = client_open();
    struct twinwall_part parts[17];
    struct twinwall_call call = {.parts = (uintptr_t)parts, .part_count = 17};

    for (int i = 0; i < 17; i++)
        parts[i] = (struct twinwall_part){(uintptr_t)bytes, 1};
    CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, &call) == -1 && errno == EMSGSIZE);
    call.part_count = UINT32_MAX;
    CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, &call) == -1 && errno == EMSGSIZE);
    CHECK_EQUAL(message_call(fd, bytes, TWINWALL_MESSAGE_BYTES_MOST + 1, room, 1, 0.2), -EMSGSIZE);
    CHECK_EQUAL(message_call(fd, bytes, 1, room, sizeof(room) + 1, 0.2), -EMSGSIZE);
    CHECK_EQUAL(message_call(fd, bytes, SIZE_MAX, room, 1, 0.2), -EINVAL);
    CHECK_EQUAL(message_send(fd, bytes, TWINWALL_MESSAGE_ONE_WAY_MOST + 1), -EMSGSIZE);
    call = (struct twinwall_call){.flags = 2};
    CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, &call) == -1 && errno == EINVAL);
    call = (struct twinwall_call){.reserved = 1};
    CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, &call) == -1 && errno == EINVAL);
    close(server);
}

static void message_queue_is_bounded(void) {
    int server = server_open(3), fd = device_open(O_NONBLOCK);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    struct twinwall_receive taken;

    CHECK_EQUAL(message_connect(fd, PORT), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT);
        CHECK_EQUAL(message_send(fd, &i, sizeof(i)), 0);
    }
    CHECK_EQUAL(poll(&ready, 1, 0), 0);
    CHECK_EQUAL(message_send(fd, "x", 1), -EAGAIN);
    CHECK_EQUAL(message_call(fd, "x", 1, room, 1, 5), -EAGAIN);
    for (int i = 0; i < 3; i++) {
        int got = -1;
        CHECK_EQUAL(message_take(server, &got, sizeof(got), 1, &taken), 0);
        CHECK_EQUAL(got, i);
        CHECK_EQUAL(taken.token, 0);
        CHECK_EQUAL(taken.length, sizeof(got));
    }
    CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT);
}

static void send_many(void *unused) {
    int fd = client_open();

    (void)unused;
    for (int i = 0; i < 200; i++)
        CHECK_EQUAL(message_send(fd, &i, sizeof(i)), 0);
}

/// Checks that all senders that wait for room in the queue get it.
static void message_room_is_waited_for(void) {
    int server = server_open(2);
    struct twinwall_receive taken;
    pid_t pids[4];
    int got;

    for (int i = 0; i < 4; i++)
        pids[i] = spawn(send_many, NULL);
    for (int i = 0; i < 800; i++)
        CHECK_EQUAL(message_take(server, &got, sizeof(got), 5, &taken), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(join(pids[i]), 0);
    CHECK_EQUAL(message_take(server, &got, sizeof(got), 0.05, &taken), -ETIMEDOUT);
}

static void send_one(void *argument) {
    int fd = client_open();

    CHECK_EQUAL(message_call(fd, argument, 4, room, sizeof(room), 5), 3);
    CHECK(memcmp(room, "yes", 3) == 0);
}

/// Checks that a token is valid only for the server of its port, only once, and only while the
/// caller waits.
static void message_answer_needs_its_token(void) {
    int server = server_open(8), client = client_open(), other = device_open(0);
    struct twinwall_receive taken;

    CHECK_EQUAL(message_bind(other, PORT + 1, 8, 0), 0);
    CHECK_EQUAL(message_answer(server, 1, "no", 2), -ENOENT);
    pid_t caller = spawn(send_one, "ask");
    CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    CHECK(memcmp(room, "ask", 4) == 0 && taken.length == 4 && taken.pid == caller &&
          taken.uid == getuid());
    CHECK_EQUAL(message_answer(server, taken.token + 1, "no", 2), -ENOENT);
    CHECK_EQUAL(message_answer(other, taken.token, "no", 2), -ENOENT);
    CHECK_EQUAL(message_answer(client, taken.token, "no", 2), -ENOTCONN);
    CHECK_EQUAL(message_answer(device_open(0), taken.token, "no", 2), -ENOTCONN);
    CHECK_EQUAL(message_answer(server, taken.token, bytes, sizeof(room) + 1), -EMSGSIZE);
    CHECK_EQUAL(message_answer(server, taken.token, (void *)8, 3), -EFAULT);
    CHECK_EQUAL(message_answer(server, taken.token, "yes", 3), 0);
    CHECK_EQUAL(message_answer(server, taken.token, "yes", 3), -ENOENT);
    CHECK_EQUAL(join(caller), 0);
}

static void call_briefly(void *seconds) {
    int fd = client_open();

    CHECK_EQUAL(message_call(fd, "x", 1, room, sizeof(room), *(double *)seconds), -ETIMEDOUT);
}

/// Checks that a deadline ends each wait: for room in the queue, for the server, for the answer,
/// and for a request.
static void message_deadlines_hold(void) {
    double brief = 0.2;
    int server = server_open(1), fd = client_open();
    struct twinwall_receive taken;
    uint64_t start = now_ns();

    CHECK_EQUAL(message_take(server, room, 1, brief, &taken), -ETIMEDOUT);
    CHECK_EQUAL(join(spawn(call_briefly, &brief)), 0);
    CHECK_EQUAL(message_send(fd, "x", 1), 0);
    CHECK_EQUAL(join(spawn(call_briefly, &brief)), 0);
    CHECK_EQUAL(message_take(server, room, 1, brief, &taken), 0);
    brief = 0.5;
    pid_t caller = spawn(call_briefly, &brief);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
    CHECK_EQUAL(join(caller), 0);
    CHECK_EQUAL(message_answer(server, taken.token, "late", 4), -ECANCELED);
    CHECK_EQUAL(message_answer(server, taken.token, "late", 4), -ENOENT);
    CHECK(now_ns() - start < 5 * UINT64_C(1000000000));
}

static void message_poll_tells(void) {
    int server = server_open(4), client = client_open(), loose = device_open(0);
    struct pollfd serves = {.fd = server, .events = POLLIN | POLLOUT},
                  sends = {.fd = client, .events = POLLIN | POLLOUT},
                  none = {.fd = loose, .events = POLLIN | POLLOUT};
    struct twinwall_receive taken;

    CHECK(poll(&none, 1, 0) == 1 && none.revents == POLLHUP);
    CHECK_EQUAL(poll(&serves, 1, 0), 0);
    CHECK(poll(&sends, 1, 0) == 1 && sends.revents == POLLOUT);
    pid_t sender = spawn(send_many, NULL);
    CHECK(poll(&serves, 1, 5000) == 1 && serves.revents == POLLIN);
    end_server(sender);
    while (message_take(server, room, 8, 0.01, &taken) == 0)
        ;
    CHECK_EQUAL(poll(&serves, 1, 0), 0);
    close(server);
    CHECK(poll(&sends, 1, 0) == 1 && sends.revents & POLLHUP);
}

static void message_nonblocking_server(void) {
    int server = device_open(O_NONBLOCK);
    struct twinwall_receive taken;

    CHECK_EQUAL(message_bind(server, PORT, 4, 0), 0);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken), -EAGAIN);
}

static void message_unknown_requests(void) {
    int fd = device_open(0);
    uint64_t start = now_ns();

    for (unsigned int number = 0; number < 256; number++) {
        if (number >= 0x70 && number <= 0x73)
            continue;
        CHECK(ioctl(fd, _IOWR('w', number, struct twinwall_call), room) == -1 && errno == ENOTTY);
    }
    CHECK(ioctl(fd, _IOWR('w', 0x72, uint32_t), room) == -1 && errno == ENOTTY);
    CHECK(now_ns() - start < 2 * UINT64_C(1000000000));
    CHECK(ioctl(fd, TWINWALL_MESSAGE_CALL, NULL) == -1 && errno == ENOTCONN);
    CHECK(ioctl(fd, TWINWALL_MESSAGE_BIND, NULL) == -1 && errno == EFAULT);
    CHECK(ioctl(fd, TWINWALL_MESSAGE_BIND, (void *)-4096L) == -1 && errno == EFAULT);
    CHECK(read(fd, room, 1) == -1 && write(fd, room, 1) == -1);
}

static void message_ports(void) {
    int server = device_open(0), fd = device_open(0);

    CHECK_EQUAL(message_connect(fd, PORT), -ECONNREFUSED);
    CHECK_EQUAL(message_bind(server, 0, 4, 0), -EINVAL);
    CHECK_EQUAL(message_bind(server, 1U << 31, 4, 0), -EINVAL);
    CHECK_EQUAL(message_bind(server, PORT, 0, 0), -EINVAL);
    CHECK_EQUAL(message_bind(server, PORT, TWINWALL_MESSAGE_QUEUE_MOST + 1, 0), -EINVAL);
    CHECK_EQUAL(message_bind(server, PORT, 4, 2), -EINVAL);
    CHECK_EQUAL(message_bind(server, PORT, 4, 0), 0);
    CHECK_EQUAL(message_bind(server, PORT + 1, 4, 0), -EISCONN);
    CHECK_EQUAL(message_bind(fd, PORT, 4, 0), -EADDRINUSE);
    CHECK_EQUAL(message_connect(fd, PORT), 0);
    CHECK_EQUAL(message_connect(fd, PORT), -EISCONN);
    close(server);
    server = device_open(0);
    CHECK_EQUAL(message_bind(server, PORT, 4, 0), 0);
    /* A client stays with the port that it connected to. */
    CHECK_EQUAL(message_send(fd, "x", 1), -EPIPE);
}

static void connect_as(void *expected) {
    CHECK(setuid(1234) == 0);
    CHECK_EQUAL(message_connect(device_open(0), PORT), *(int *)expected);
}

/// Checks that the server decides which users may connect. Needs root to change the user.
static void message_other_users(void) {
    int server = device_open(0), refused = -EACCES, taken = 0;

    CHECK_EQUAL(message_bind(server, PORT, 4, 0), 0);
    CHECK_EQUAL(join(spawn(connect_as, &refused)), 0);
    close(server);
    server = device_open(0);
    CHECK_EQUAL(message_bind(server, PORT, 4, TWINWALL_ANY_USER), 0);
    CHECK_EQUAL(join(spawn(connect_as, &taken)), 0);
}

static void send_from_namespace(void *unused) {
    (void)unused;
    CHECK(syscall(SYS_unshare, CLONE_NEWPID) == 0);
    pid_t inner = fork();
    if (inner == 0) {
        CHECK(getpid() == 1);
        int fd = device_open(0);
        CHECK_EQUAL(message_connect(fd, PORT), 0);
        CHECK_EQUAL(message_send(fd, "x", 1), 0);
        _exit(0);
    }
    CHECK_EQUAL(join(inner), 0);
}

static void receive_in_namespace(void *unused) {
    struct twinwall_receive taken;

    (void)unused;
    CHECK(syscall(SYS_unshare, CLONE_NEWPID) == 0);
    pid_t inner = fork();
    if (inner == 0) {
        int server = server_open(4);
        /* From a sibling or parent namespace: a process invisible to this one. */
        CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
        CHECK_EQUAL(taken.pid, 0);
        /* From itself. */
        CHECK_EQUAL(message_send(client_open(), "x", 1), 0);
        CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
        CHECK_EQUAL(taken.pid, 1);
        _exit(0);
    }
    CHECK_EQUAL(join(inner), 0);
}

/// Checks that a receiver gets the sender's process id in the receiver's PID namespace; 0 = not
/// visible there. Needs root for the namespaces.
static void message_pids_in_namespaces(void) {
    struct twinwall_receive taken;
    int server = server_open(4);

    pid_t sender = spawn(send_from_namespace, NULL);
    CHECK_EQUAL(join(sender), 0);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
    CHECK(taken.pid > 1 || taken.pid == 0);
    close(server);
    pid_t receiver = spawn(receive_in_namespace, NULL);
    for (int i = 0; i < 200; i++) {
        int fd = device_open(0);
        if (message_connect(fd, PORT) == 0) {
            CHECK_EQUAL(message_send(fd, "x", 1), 0);
            break;
        }
        close(fd);
        sleep_ms(10);
    }
    CHECK_EQUAL(join(receiver), 0);
}

/// Checks that the receiver of a truncated message gets the message's whole length.
static void message_cut_short(void) {
    int server = server_open(4), fd = client_open();
    struct twinwall_receive taken;

    fill();
    memset(room, 0, sizeof(room));
    CHECK_EQUAL(message_send(fd, bytes, 5000), 0);
    CHECK_EQUAL(message_take(server, room, 100, 1, &taken), 0);
    CHECK_EQUAL(taken.length, 5000);
    CHECK(memcmp(room, bytes, 100) == 0 && room[100] == 0);
}

/// Checks that a server that receives requests without replying gets a limited number of them.
static void message_owed_answers(void) {
    double seconds = 3;
    int server = server_open(2);
    struct twinwall_receive taken[3];
    pid_t pids[3];

    for (int i = 0; i < 3; i++)
        pids[i] = spawn(call_briefly, &seconds);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(message_take(server, room, 1, 5, &taken[i]), 0);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken[2]), -EBUSY);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(join(pids[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(message_answer(server, taken[i].token, "", 0), -ECANCELED);
    CHECK_EQUAL(message_take(server, room, 1, 0.05, &taken[2]), -ETIMEDOUT);
}

static void call_many(void *unused) {
    int fd = client_open();

    (void)unused;
    fill();
    for (int i = 0; i < 400; i++) {
        size_t length = (i * 7919) % 40000;
        CHECK_EQUAL(message_call(fd, bytes + i, length, room, sizeof(room), 20), length);
        CHECK(memcmp(room, bytes + i, length) == 0);
    }
}

/// Runs two server processes that share an opened file, and four callers of its port. Checks that
/// each reply has the bytes of its request.
static void message_on_both_processors(void) {
    int fd = server_open(3);
    pid_t servers[2], callers[4];

    for (int i = 0; i < 2; i++)
        servers[i] = spawn(serve, &fd);
    close(fd);
    for (int i = 0; i < 4; i++)
        callers[i] = spawn(call_many, NULL);
    for (int i = 0; i < 4; i++) {
        int status;
        CHECK(waitpid(callers[i], &status, 0) == callers[i]);
        CHECK_EQUAL(status, 0);
    }
    for (int i = 0; i < 2; i++)
        end_server(servers[i]);
}

const struct guest_test message_tests[] = {
    {"message_echoes_every_length", message_echoes_every_length, false},
    {"message_in_parts", message_in_parts, false},
    {"message_over_its_limits", message_over_its_limits, false},
    {"message_queue_is_bounded", message_queue_is_bounded, false},
    {"message_room_is_waited_for", message_room_is_waited_for, false},
    {"message_answer_needs_its_token", message_answer_needs_its_token, false},
    {"message_deadlines_hold", message_deadlines_hold, false},
    {"message_poll_tells", message_poll_tells, false},
    {"message_nonblocking_server", message_nonblocking_server, false},
    {"message_unknown_requests", message_unknown_requests, false},
    {"message_ports", message_ports, false},
    {"message_other_users", message_other_users, true},
    {"message_pids_in_namespaces", message_pids_in_namespaces, true},
    {"message_cut_short", message_cut_short, false},
    {"message_owed_answers", message_owed_answers, false},
    {"message_on_both_processors", message_on_both_processors, false},
    {0},
};
