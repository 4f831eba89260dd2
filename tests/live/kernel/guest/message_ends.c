// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of /dev/twinwall-message in which one end of a call ends, stops, executes another program
// or is shared, at every step of the call.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "message.h"

#define LARGE 200000

static uint8_t bytes[LARGE], room[LARGE];

/// Caller's request, and its expected result.
struct caller {
    size_t length;
    long expected;
    bool threaded; ///< the call is made by a second thread
};

static struct caller plan;

static void *call(void *unused) {
    long result = message_call(client_open(), bytes, plan.length, room, plan.length, 0);

    if (result != plan.expected)
        guest_fail(__FILE__, __LINE__, "call: %ld, expected %ld", result, plan.expected);
    return unused;
}

static void be_caller(void *unused) {
    pthread_t thread;

    /* Only the test has the server's file. */
    close_range(3, ~0U, 0);
    if (!plan.threaded) {
        call(unused);
        return;
    }
    CHECK(pthread_create(&thread, NULL, call, NULL) == 0);
    /* The other thread sleeps in the kernel when this one is notified. */
    raise(SIGSTOP);
    execl("/bin/true", "true", NULL);
    CHECK(false);
}

static pid_t start_caller(size_t length, long expected) {
    plan = (struct caller){.length = length, .expected = expected};
    pid_t pid = spawn(be_caller, NULL);
    wait_until_asleep(pid);
    return pid;
}

/// Checks that the port still works: the server receives and answers a call.
static void check_works(int server) {
    struct twinwall_receive taken;
    pid_t pid = start_caller(100, 100);

    do
        CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    while (taken.pid != pid);
    CHECK_EQUAL(message_answer(server, taken.token, bytes, 100), 0);
    CHECK_EQUAL(join(pid), 0);
}

static const size_t lengths[] = {64, 3000, LARGE};

static void message_caller_killed_in_queue(void) {
    int server = server_open(64);
    struct twinwall_receive taken;

    for (int i = 0; i < 30; i++) {
        pid_t pid = start_caller(lengths[i % 3], 0);
        kill(pid, SIGKILL);
        CHECK_EQUAL(WTERMSIG(join(pid)), SIGKILL);
    }
    CHECK_EQUAL(message_take(server, room, sizeof(room), 0.05, &taken), -ETIMEDOUT);
    check_works(server);
}

static void message_caller_killed_while_served(void) {
    int server = server_open(64);
    struct twinwall_receive taken;

    for (int i = 0; i < 30; i++) {
        pid_t pid = start_caller(lengths[i % 3], 0);
        CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
        kill(pid, SIGKILL);
        CHECK_EQUAL(WTERMSIG(join(pid)), SIGKILL);
        CHECK_EQUAL(message_answer(server, taken.token, bytes, 10), -ECANCELED);
    }
    check_works(server);
}

/// Serves callers, which the tests kill at any moment.
static void serve(void *fd) { serve_echo(*(int *)fd); }

#define SERVER_GONE 3

static void call_for_ever(void *unused) {
    (void)unused;
    close_range(3, ~0U, 0);
    int fd = device_open(0);
    if (message_connect(fd, PORT) == -ECONNREFUSED)
        _exit(SERVER_GONE);
    for (size_t i = 0;; i++) {
        long result = message_call(fd, bytes, lengths[i % 3], room, sizeof(room), 0);
        if (result == -EPIPE || result == -ECONNRESET)
            _exit(SERVER_GONE);
        CHECK_EQUAL(result, lengths[i % 3]);
    }
}

static void message_caller_killed_any_time(void) {
    int fd = server_open(4);
    pid_t server = spawn(serve, &fd);

    for (int i = 0; i < 60; i++) {
        pid_t pids[3];
        for (int j = 0; j < 3; j++)
            pids[j] = spawn(call_for_ever, NULL);
        sleep_ms(i % 12);
        for (int j = 0; j < 3; j++)
            kill(pids[j], SIGKILL);
        for (int j = 0; j < 3; j++)
            join(pids[j]);
    }
    plan = (struct caller){.length = LARGE, .expected = LARGE};
    CHECK_EQUAL(join(spawn(be_caller, NULL)), 0);
    kill(server, SIGKILL);
    join(server);
}

static void message_server_ends(void) {
    struct twinwall_receive taken;

    for (size_t i = 0; i < 3; i++) {
        int server = server_open(4);
        pid_t served = start_caller(lengths[i], -ECONNRESET);
        CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
        pid_t waiting = start_caller(lengths[i], -EPIPE);
        close(server);
        CHECK_EQUAL(join(served), 0);
        CHECK_EQUAL(join(waiting), 0);
    }
}

static void message_server_killed_any_time(void) {
    for (int i = 0; i < 40; i++) {
        int fd = server_open(4);
        pid_t server = spawn(serve, &fd);
        pid_t caller = spawn(call_for_ever, NULL);
        int status;

        close(fd);
        sleep_ms(i % 10);
        kill(server, SIGKILL);
        join(server);
        /* The pending call fails with an error; or the caller came too late to connect. */
        status = join(caller);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == SERVER_GONE);
    }
}

static void *send_later(void *fd) {
    sleep_ms(100);
    CHECK_EQUAL(message_send(*(int *)fd, "x", 1), 0);
    return NULL;
}

/// Checks a client that outlives its server: the kernel must use no freed part of the port.
static void message_to_a_server_gone(void) {
    for (int i = 0; i < 50; i++) {
        int server = server_open(4), fd = client_open(), other = client_open();
        CHECK_EQUAL(message_send(other, "x", 1), 0);
        close(server);
        /* Freed memory is allocated again. */
        int next = server_open(4);
        CHECK_EQUAL(message_send(fd, "x", 1), -EPIPE);
        CHECK_EQUAL(message_call(other, "x", 1, room, 1, 1), -EPIPE);
        close(other);
        close(next);
        CHECK_EQUAL(message_call(fd, "x", 1, room, 1, 1), -EPIPE);
        close(fd);
    }
}

/// Checks that the resources of an opened device file are released when its last descriptor is
/// closed, and not before.
static void message_dup_and_close(void) {
    int server = server_open(4), copy = dup(server), fd = client_open(), client = dup(fd);
    struct twinwall_receive taken;
    pthread_t thread;

    CHECK(close(copy) == 0 && close(client) == 0);
    CHECK_EQUAL(message_send(fd, "x", 1), 0);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK_EQUAL(join(child), 0);
    CHECK_EQUAL(message_send(fd, "x", 1), 0);
    CHECK_EQUAL(message_take(server, room, 1, 5, &taken), 0);
    /* Closed while another thread waits on it: the wait holds the file. */
    copy = dup(server);
    CHECK(pthread_create(&thread, NULL, send_later, &fd) == 0);
    CHECK_EQUAL(message_take(copy, room, 1, 5, &taken), 0);
    pthread_join(thread, NULL);
    close(copy);
    check_works(server);
}

static void message_forked_server(void) {
    int server = server_open(4);
    pid_t child = spawn(serve, &server);

    close(server);
    plan = (struct caller){.length = LARGE, .expected = LARGE};
    CHECK_EQUAL(join(spawn(be_caller, NULL)), 0);
    kill(child, SIGKILL);
    join(child);
    CHECK_EQUAL(message_connect(device_open(0), PORT), -ECONNREFUSED);
}

static void send_descriptor(int channel, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    CHECK_EQUAL(sendmsg(channel, &message, 0), 1);
}

static int receive_descriptor(int channel) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fd;

    CHECK_EQUAL(recvmsg(channel, &message, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static void serve_from_channel(void *channel) { serve_echo(receive_descriptor(*(int *)channel)); }

/// Checks that a server's and a client's descriptor can be passed by a socket, and that they still
/// work after the sender has closed its own copy.
static void message_descriptors_passed(void) {
    int pair[2], fd, server = server_open(4);

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_t child = spawn(serve_from_channel, &pair[1]);
    send_descriptor(pair[0], server);
    fd = client_open();
    close(server);
    CHECK_EQUAL(message_call(fd, bytes, LARGE, room, LARGE, 5), LARGE);
    /* In transit, in no process's table. */
    send_descriptor(pair[0], fd);
    close(fd);
    fd = receive_descriptor(pair[1]);
    CHECK_EQUAL(message_call(fd, bytes, 10, room, LARGE, 5), 10);
    kill(child, SIGKILL);
    join(child);
    CHECK_EQUAL(message_call(fd, bytes, 10, room, LARGE, 5), -EPIPE);
}

static void message_caller_stopped(void) {
    int server = server_open(4), status;
    struct twinwall_receive taken;

    for (size_t i = 0; i < 3; i++) {
        pid_t pid = start_caller(lengths[i], lengths[i]);
        kill(pid, SIGSTOP);
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        if (i == 1) {
            kill(pid, SIGCONT);
            wait_until_asleep(pid);
        }
        int result = message_take(server, room, sizeof(room), 0.2, &taken);
        if (i == 1)
            CHECK_EQUAL(result, 0);
        /* Stopped in the queue, it had to leave: its call is restarted when it continues. */
        if (result != 0) {
            kill(pid, SIGCONT);
            CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
        }
        CHECK_EQUAL(message_answer(server, taken.token, bytes, lengths[i]), 0);
        CHECK_EQUAL(join(pid), 0);
    }
}

static void on_signal(int number) { (void)number; }

static void call_interrupted(void *expected) {
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGUSR1, &action, NULL);
    CHECK_EQUAL(message_call(client_open(), bytes, LARGE, room, LARGE, 0), *(long *)expected);
}

static void call_restarted(void *unused) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    (void)unused;
    sigaction(SIGUSR1, &action, NULL);
    CHECK_EQUAL(message_call(client_open(), bytes, LARGE, room, LARGE, 0), 3);
}

/// Checks that a signal ends a call. A call that was not yet received is restarted if the action of
/// the signal has SA_RESTART.
static void message_caller_interrupted(void) {
    int server = server_open(4);
    struct twinwall_receive taken;
    long interrupted = -EINTR;

    pid_t pid = spawn(call_interrupted, &interrupted);
    wait_until_asleep(pid);
    kill(pid, SIGUSR1);
    CHECK_EQUAL(join(pid), 0);
    pid = spawn(call_restarted, NULL);
    wait_until_asleep(pid);
    kill(pid, SIGUSR1);
    /* It woke, and sleeps in the queue again: no server receives its request meanwhile. */
    wait_until_asleep(pid);
    CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    while (message_answer(server, taken.token, "yes", 3) == -ECANCELED)
        CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    CHECK_EQUAL(join(pid), 0);
    pid = spawn(call_interrupted, &interrupted);
    CHECK_EQUAL(message_take(server, room, sizeof(room), 5, &taken), 0);
    kill(pid, SIGUSR1);
    CHECK_EQUAL(join(pid), 0);
    CHECK_EQUAL(message_answer(server, taken.token, bytes, LARGE), -ECANCELED);
}

/// Checks a process that executes another program while one of its threads waits for a reply.
static void message_caller_exec(void) {
    int server = server_open(4), status;
    struct twinwall_receive taken;

    for (int served = 0; served < 2; served++) {
        plan = (struct caller){.length = LARGE, .expected = LARGE, .threaded = true};
        pid_t pid = spawn(be_caller, NULL);
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        if (served)
            kill(pid, SIGCONT);
        int result = message_take(server, room, sizeof(room), 0.3, &taken);
        kill(pid, SIGCONT);
        CHECK_EQUAL(join(pid), 0);
        if (result == 0)
            CHECK_EQUAL(message_answer(server, taken.token, bytes, LARGE), -ECANCELED);
    }
    check_works(server);
}

const struct guest_test message_end_tests[] = {
    {"message_caller_killed_in_queue", message_caller_killed_in_queue, false},
    {"message_caller_killed_while_served", message_caller_killed_while_served, false},
    {"message_caller_killed_any_time", message_caller_killed_any_time, false},
    {"message_caller_stopped", message_caller_stopped, false},
    {"message_caller_interrupted", message_caller_interrupted, false},
    {"message_caller_exec", message_caller_exec, false},
    {"message_server_ends", message_server_ends, false},
    {"message_server_killed_any_time", message_server_killed_any_time, false},
    {"message_to_a_server_gone", message_to_a_server_gone, false},
    {"message_dup_and_close", message_dup_and_close, false},
    {"message_forked_server", message_forked_server, false},
    {"message_descriptors_passed", message_descriptors_passed, false},
    {0},
};
