// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of /dev/twinwall-message with all kinds of user memory, and of the memory that the module
// retains.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "message.h"

#define LARGE 200000
#define MAP_BYTES (256 * 1024)

static const uint8_t constant[LARGE] = {1, 2, 3};
static uint8_t untouched[LARGE];
static uint8_t bytes[LARGE], room[LARGE];

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

static void *map(int protection, int flags, int fd) {
    void *address = mmap(NULL, MAP_BYTES, protection, flags, fd, 0);

    CHECK(address != MAP_FAILED);
    return address;
}

long long pinned_pages(void) {
    int refresh = open("/proc/sys/vm/stat_refresh", O_WRONLY | O_CLOEXEC);

    CHECK(refresh >= 0 && write(refresh, "1", 1) == 1);
    close(refresh);
    return proc_value("/proc/vmstat", "nr_foll_pin_acquired ") -
           proc_value("/proc/vmstat", "nr_foll_pin_released ");
}

/// Checks that a request can be in memory that is only readable.
static void message_constant_source(void) {
    pid_t server = echo_server();
    int fd = client_open();
    void *read_only = map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    CHECK_EQUAL(message_call(fd, constant, 64, room, LARGE, 5), 64);
    CHECK_EQUAL(message_call(fd, constant, LARGE, room, LARGE, 5), LARGE);
    CHECK(memcmp(room, constant, LARGE) == 0);
    CHECK_EQUAL(message_call(fd, untouched, LARGE, room, LARGE, 5), LARGE);
    CHECK(memcmp(room, untouched, LARGE) == 0);
    CHECK_EQUAL(message_call(fd, read_only, LARGE, room, LARGE, 5), LARGE);
    end_server(server);
}

static void message_bad_memory(void) {
    pid_t server = echo_server();
    int fd = client_open();
    uint8_t *read_only = map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    uint8_t *half = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    const size_t lengths[] = {64, 3000, LARGE};

    CHECK(munmap(half + 131072, MAP_BYTES - 131072) == 0);
    for (int i = 0; i < 3; i++) {
        size_t length = lengths[i];
        CHECK_EQUAL(message_call(fd, NULL, length, room, LARGE, 5), -EFAULT);
        CHECK_EQUAL(message_call(fd, half + 131072 - length / 2, length, room, LARGE, 5), -EFAULT);
        CHECK_EQUAL(message_call(fd, (void *)-8192L, length, room, LARGE, 5), -EFAULT);
        CHECK_EQUAL(message_call(fd, bytes, length, read_only, length, 5), -EFAULT);
        CHECK_EQUAL(message_call(fd, bytes, length, half + 131072 - length / 2, length, 5),
                    -EFAULT);
        CHECK_EQUAL(message_call(fd, bytes, length, NULL, length, 5), -EFAULT);
    }
    CHECK_EQUAL(message_call(fd, bytes, LARGE, room, LARGE, 5), LARGE);
    end_server(server);
}

struct shared_call {
    uint8_t *memory;
    long result;
};

static void *call_from_memory(void *argument) {
    struct shared_call *call = argument;

    call->result = message_call(client_open(), call->memory, LARGE, call->memory, LARGE, 5);
    return NULL;
}

/// Checks that a call succeeds if another thread of the caller unmaps its memory, before or after
/// the server receives the request.
static void message_unmapped_meanwhile(void) {
    int server = server_open(4);
    struct twinwall_receive taken;
    pthread_t thread;

    for (int i = 0; i < 10; i++) {
        struct shared_call call = {map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), 0};

        memset(call.memory, i + 1, LARGE);
        CHECK(pthread_create(&thread, NULL, call_from_memory, &call) == 0);
        if (i % 2) {
            sleep_ms(50);
            munmap(call.memory, MAP_BYTES);
        }
        CHECK_EQUAL(message_take(server, room, LARGE, 5, &taken), 0);
        CHECK(room[0] == i + 1 && room[LARGE - 1] == i + 1);
        if (i % 2 == 0)
            munmap(call.memory, MAP_BYTES);
        CHECK_EQUAL(message_answer(server, taken.token, bytes, LARGE), 0);
        pthread_join(thread, NULL);
        CHECK_EQUAL(call.result, LARGE);
    }
}

/// Checks that a server that passes bad memory loses no request and no token.
static void message_server_of_bad_memory(void) {
    int server = server_open(4);
    uint8_t *none = map(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct shared_call call = {untouched, 0};
    struct twinwall_receive taken;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, call_from_memory, &call) == 0);
    CHECK_EQUAL(message_take(server, none, LARGE, 5, &taken), -EFAULT);
    CHECK_EQUAL(message_take(server, room, LARGE, 5, &taken), 0);
    for (int i = 0; i < 50; i++)
        CHECK_EQUAL(message_answer(server, taken.token, none, i % 2 ? LARGE : 3000), -EFAULT);
    CHECK_EQUAL(message_answer(server, taken.token, bytes, LARGE), 0);
    pthread_join(thread, NULL);
    CHECK_EQUAL(call.result, LARGE);
}

static void serve_pattern(void *fd) {
    struct twinwall_receive taken;

    memset(bytes, 0x5a, LARGE);
    CHECK_EQUAL(message_take(*(int *)fd, room, LARGE, 5, &taken), 0);
    CHECK_EQUAL(message_answer(*(int *)fd, taken.token, bytes, LARGE), 0);
}

/// Checks that an answer into a mapped file reaches the disk: its pages must become dirty. Needs
/// root for the file system.
static void message_answer_into_a_file(void) {
    int server = server_open(4),
        file = open("/disk/answer", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(file >= 0);
    memset(bytes, 0x11, LARGE);
    CHECK_EQUAL(write(file, bytes, LARGE), LARGE);
    CHECK(fsync(file) == 0);
    uint8_t *mapped = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED);
    /* Every page is present and clean. Pinning one for writing makes it dirty; if it is cleaned
     * during the call, it must become dirty again. */
    pid_t child = spawn(serve_pattern, &server);
    kill(child, SIGSTOP);
    pid_t syncer = fork();
    if (syncer == 0) {
        sleep_ms(300);
        CHECK(fsync(file) == 0);
        kill(child, SIGCONT);
        _exit(0);
    }
    CHECK_EQUAL(message_call(client_open(), "x", 1, mapped, LARGE, 5), LARGE);
    CHECK_EQUAL(join(child), 0);
    CHECK_EQUAL(join(syncer), 0);
    CHECK(mapped[0] == 0x5a && mapped[LARGE - 1] == 0x5a);
    munmap(mapped, LARGE);
    CHECK(fsync(file) == 0);
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK_EQUAL(pread(file, room, LARGE, 0), LARGE);
    for (size_t i = 0; i < LARGE; i++)
        if (room[i] != 0x5a)
            guest_fail(__FILE__, __LINE__, "byte %zu of the file is old", i);
}

static void message_huge_pages(void) {
    pid_t server = echo_server();
    int fd = client_open();
    uint8_t *memory =
        mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    madvise(memory, 8 << 20, MADV_HUGEPAGE);
    memset(memory, 0x77, 8 << 20);
    CHECK_EQUAL(message_call(fd, memory + 2097152 - 4096, LARGE, memory + 4194304 - 10, LARGE, 5),
                LARGE);
    CHECK(memory[4194304 - 10] == 0x77 && memory[4194304 + LARGE - 11] == 0x77);
    /* Pages shared by fork are copied before they are written. */
    pid_t child = fork();
    if (child == 0) {
        sleep_ms(200);
        _exit(memory[4194304] != 0x77);
    }
    memset(bytes, 0x33, LARGE);
    CHECK_EQUAL(message_call(fd, bytes, LARGE, memory + 4194304, LARGE, 5), LARGE);
    CHECK_EQUAL(memory[4194304], 0x33);
    CHECK_EQUAL(join(child), 0);
    end_server(server);
}

static void call_large(void *expected) {
    long result = message_call(client_open(), bytes, LARGE, room, 1, 2);

    if (result != *(long *)expected)
        guest_fail(__FILE__, __LINE__, "call: %ld, expected %ld", result, *(long *)expected);
}

static void message_pays_for_memory(void) {
    long refused = -ENOBUFS, late = -ETIMEDOUT;
    struct rlimit limit = {300000, 300000};
    int server = server_open(16);
    pid_t first, second;

    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    first = spawn(call_large, &late);
    wait_until_asleep(first);
    /* The limit counts per user, not per process. */
    second = spawn(call_large, &refused);
    CHECK_EQUAL(join(second), 0);
    CHECK_EQUAL(message_call(client_open(), bytes, 64, room, 1, 0.1), -ETIMEDOUT);
    CHECK_EQUAL(join(first), 0);
    /* The memory is released. */
    CHECK_EQUAL(join(spawn(call_large, &late)), 0);
    CHECK_EQUAL(message_call(client_open(), bytes, 64, room, LARGE, 0.1), -ETIMEDOUT);
    /* One-way messages are stored in the kernel, and count as well. */
    int fd = client_open(), sent = 0;
    while (sent < 100 && message_send(fd, bytes, 60000) == 0)
        sent++;
    CHECK(sent >= 3 && sent <= 5);
    close(server);
}

/// Checks that a waiting call pins its pages, and that after it and all earlier tests of this
/// machine no page is pinned. Needs root for the counters.
static void message_pins_are_given_back(void) {
    long long before = pinned_pages();
    int server = server_open(16);
    long late = -ETIMEDOUT;

    /* The zero page, which backs untouched memory, isn't counted. */
    memset(bytes, 1, LARGE);
    pid_t caller = spawn(call_large, &late);
    wait_until_asleep(caller);
    CHECK_EQUAL(pinned_pages() - before,
                (LARGE + 4095) / 4096 + ((uintptr_t)bytes % 4096 + LARGE % 4096 > 4096));
    CHECK_EQUAL(join(caller), 0);
    close(server);
    CHECK_EQUAL(pinned_pages(), 0);
}

const struct guest_test message_memory_tests[] = {
    {"message_constant_source", message_constant_source, false},
    {"message_bad_memory", message_bad_memory, false},
    {"message_unmapped_meanwhile", message_unmapped_meanwhile, false},
    {"message_server_of_bad_memory", message_server_of_bad_memory, false},
    {"message_answer_into_a_file", message_answer_into_a_file, true},
    {"message_huge_pages", message_huge_pages, false},
    {"message_pays_for_memory", message_pays_for_memory, false},
    {"message_pins_are_given_back", message_pins_are_given_back, true},
    {0},
};
