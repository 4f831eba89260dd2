// SPDX-License-Identifier: GPL-2.0-or-later
// One process (actor) of the fuzzer of /dev/twinwall-message: its requests to the device, and their
// memory. A request begins with a unique number, a reply with the number of its request.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fuzz.h"
#include "guest.h"
#include "message.h"

#define DESCRIPTORS 8
#define PORTS 3
#define ACTIONS_MOST 150
#define AREA_BYTES (2 << 20)
#define TOKENS 8
/// Maximum time in seconds from the deadline of a call to its return, on a busy machine.
#define LATE_SECONDS 30

struct owed {
    uint64_t token;
    uint64_t number;
    int fd; ///< descriptor through which the request was received
};

static int descriptors[DESCRIPTORS];
static int passing;
static struct owed owed[TOKENS];
static uint8_t *area;   ///< memory that stays mapped
static uint8_t *moving; ///< memory that another thread unmaps, or whose rights it changes
static uint8_t *constant;
static uint64_t number;

/// Closes a descriptor. Requests that were received through it can't be answered any more.
static void forget(int fd) {
    close(fd);
    for (int i = 0; i < TOKENS; i++)
        if (owed[i].fd == fd)
            owed[i] = (struct owed){0};
}

static int *any_descriptor(struct random *random) {
    return &descriptors[random_below(random, DESCRIPTORS)];
}

static void *map(int protection) {
    void *address = mmap(NULL, AREA_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(address != MAP_FAILED);
    return address;
}

/// Thread that unmaps parts of `moving`, changes their rights or maps them again while calls use
/// them, without end.
/// - argument: the thread's random numbers (struct random).
static void *move(void *argument) {
    struct random *random = argument;

    for (;;) {
        size_t offset = random_below(random, AREA_BYTES) & ~4095UL;
        size_t length = 4096 + (random_below(random, AREA_BYTES - offset) & ~4095UL);
        uint8_t *at = moving + offset;

        if (offset + length > AREA_BYTES)
            length = AREA_BYTES - offset;
        switch (random_below(random, 5)) {
        case 0:
            munmap(at, length);
            break;
        case 1:
            mprotect(at, length, random_below(random, 4));
            break;
        case 2:
            madvise(at, length, random_once_in(random, 2) ? MADV_DONTNEED : MADV_HUGEPAGE);
            break;
        default:
            mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0);
        }
        usleep(random_below(random, 3000));
    }
    return NULL;
}

/// Returns a random address for a message: in `area`, `constant` or `moving`, or an invalid
/// address.
/// - sure: out: true if all of the memory can be read and written.
static uint8_t *any_memory(struct random *random, bool *sure) {
    size_t offset = random_below(random, AREA_BYTES / 2 - 1);

    *sure = false;
    switch (random_below(random, 8)) {
    case 0:
        return constant + offset;
    case 1:
    case 2:
        return moving + offset;
    case 3:
        return (uint8_t *)(random_once_in(random, 2) ? -(uintptr_t)random_below(random, 1 << 30)
                                                     : (uintptr_t)random_below(random, 1 << 20));
    default:
        *sure = true;
        return area + offset;
    }
}

/// Splits bytes into consecutive parts of random lengths. Returns the number of parts.
/// - parts: out: address and length of each part.
static uint32_t any_parts(struct random *random, uint8_t *bytes, size_t length,
                          struct twinwall_part *parts) {
    uint32_t count = random_once_in(random, 3) ? random_below(random, 20) : 1;

    for (uint32_t i = 0; i < count; i++) {
        size_t part = i + 1 == count ? length : random_below(random, length + 1);

        parts[i] = (struct twinwall_part){(uintptr_t)bytes, part};
        bytes += part;
        length -= part;
    }
    return count;
}

static uint64_t any_deadline(struct random *random) {
    switch (random_below(random, 12)) {
    case 0:
        return 0;
    case 1:
        return random_below(random, UINT32_MAX);
    default:
        return now_ns() + random_below(random, 20000000);
    }
}

/// Checks that a request succeeded or failed with a known error; another error is a fault of the
/// module.
static void check_error(int result, const int *known, size_t count) {
    int error = errno;

    if (result == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (known[i] == error)
            return;
    guest_fail(__FILE__, __LINE__, "error %d: %s", error, strerror(error));
}
#define CHECK_ERROR(result, ...)                                                                   \
    do {                                                                                           \
        static const int known_[] = {ENOMEM, EFAULT, EINVAL, EBADF, __VA_ARGS__};                  \
        check_error(result, known_, sizeof(known_) / sizeof(known_[0]));                           \
    } while (0)

static void call(struct random *random) {
    size_t length = random_length(random, TWINWALL_MESSAGE_BYTES_MOST + 1);
    size_t room = random_length(random, TWINWALL_MESSAGE_BYTES_MOST + 1);
    bool sure, sure_room;
    uint8_t *bytes = any_memory(random, &sure);
    uint8_t *answer = any_memory(random, &sure_room);
    struct twinwall_part out[20], in[20];
    struct twinwall_call call = {.parts = (uintptr_t)out,
                                 .answer_room = (uintptr_t)in,
                                 .deadline_ns = any_deadline(random),
                                 .flags = random_once_in(random, 5) ? TWINWALL_ONE_WAY : 0};
    uint64_t mine = ++number, got;

    if (bytes == answer || (bytes < answer + room && answer < bytes + length))
        sure_room = false;
    if (sure && length >= sizeof(mine))
        memcpy(bytes, &mine, sizeof(mine));
    call.part_count = any_parts(random, bytes, length, out);
    call.answer_room_count = any_parts(random, answer, room, in);
    int result = ioctl(*any_descriptor(random), TWINWALL_MESSAGE_CALL, &call);
    CHECK_ERROR(result, EPIPE, ECONNRESET, ETIMEDOUT, EAGAIN, EINTR, EMSGSIZE, ENOBUFS, ENOTCONN);
    if (result == 0 || errno == ETIMEDOUT)
        CHECK(call.deadline_ns < UINT32_MAX ||
              now_ns() < call.deadline_ns + LATE_SECONDS * UINT64_C(1000000000));
    if (result != 0 || call.flags & TWINWALL_ONE_WAY)
        return;
    CHECK(call.answer_length <= room);
    if (!sure || !sure_room || length < sizeof(mine) || call.part_count == 0 ||
        call.answer_length < sizeof(got))
        return;
    /* A server whose room was unmapped answers 0. */
    memcpy(&got, answer, sizeof(got));
    if (got != mine && got != 0)
        guest_fail(__FILE__, __LINE__, "the answer to %llx for %llx", (long long)got,
                   (long long)mine);
}

static void receive(struct random *random) {
    struct owed *answered = &owed[random_below(random, TOKENS)];
    size_t length = random_length(random, TWINWALL_MESSAGE_BYTES_MOST + 1);
    size_t room = random_length(random, TWINWALL_MESSAGE_BYTES_MOST + 1);
    int fd = answered->token && !random_once_in(random, 6) ? answered->fd : *any_descriptor(random);
    bool sure;
    uint8_t *bytes = area + AREA_BYTES / 2, *in = any_memory(random, &sure);
    struct twinwall_part from[20], to[20];
    struct twinwall_receive receive = {.token = random_once_in(random, 4) ? 0 : answered->token,
                                       .answer_parts = (uintptr_t)from,
                                       .room = (uintptr_t)to,
                                       .deadline_ns = any_deadline(random),
                                       .flags =
                                           random_once_in(random, 4) ? TWINWALL_ANSWER_ONLY : 0};

    if (length > AREA_BYTES / 2)
        length = AREA_BYTES / 2;
    memcpy(bytes, &answered->number, sizeof(answered->number));
    /* Another port's token may also be valid on this port, for a request with another number. */
    if (fd != answered->fd)
        memset(bytes, 0, sizeof(answered->number));
    if (sure)
        memset(in, 0, sizeof(uint64_t));
    receive.answer_part_count = any_parts(random, bytes, length, from);
    receive.room_count = any_parts(random, in, room, to);
    int result = ioctl(fd, TWINWALL_MESSAGE_RECEIVE, &receive);
    CHECK_ERROR(result, ENOENT, ECANCELED, EMSGSIZE, EAGAIN, ETIMEDOUT, EINTR, EBUSY, ENOTCONN);
    if (result != 0 || receive.flags & TWINWALL_ANSWER_ONLY || receive.token == 0)
        return;
    CHECK(receive.length <= TWINWALL_MESSAGE_BYTES_MOST && receive.uid == NOBODY);
    answered->token = receive.token;
    answered->fd = fd;
    answered->number = 0;
    if (sure && room >= sizeof(uint64_t) && receive.length >= sizeof(uint64_t))
        memcpy(&answered->number, in, sizeof(answered->number));
}

static void open_end(struct random *random) {
    int *fd = any_descriptor(random), port = 100 + random_below(random, PORTS);

    forget(*fd);
    *fd = device_open(random_once_in(random, 3) ? O_NONBLOCK : 0);
    if (random_once_in(random, 2)) {
        struct twinwall_bind bind = {port, 1 + random_below(random, 8), 0, 0};
        if (random_once_in(random, 10))
            random_fill(random, &bind, sizeof(bind));
        CHECK_ERROR(ioctl(*fd, TWINWALL_MESSAGE_BIND, &bind), EADDRINUSE, EISCONN);
    } else {
        struct twinwall_connect connect = {.port = port};
        CHECK_ERROR(ioctl(*fd, TWINWALL_MESSAGE_CONNECT, &connect), EISCONN, ECONNREFUSED, EACCES);
    }
}

/// Sends random requests with random structures. The token in a structure is never valid, as it
/// would answer another process with wrong bytes.
static void garbage(struct random *random) {
    const unsigned int requests[] = {TWINWALL_MESSAGE_BIND, TWINWALL_MESSAGE_CONNECT,
                                     TWINWALL_MESSAGE_CALL, TWINWALL_MESSAGE_RECEIVE};
    uint64_t words[16];
    void *argument = words;
    bool sure;

    for (size_t i = 0; i < 16; i++)
        words[i] = i > 0 && random_once_in(random, 2) ? random_below(random, 24)
                                                      : (uintptr_t)any_memory(random, &sure);
    if (random_once_in(random, 4))
        argument = random_once_in(random, 2) ? constant : NULL;
    ioctl(*any_descriptor(random), requests[random_below(random, 4)], argument);
    ioctl(*any_descriptor(random), random_below(random, UINT32_MAX), argument);
}

static void pass(struct random *random) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int *fd = any_descriptor(random);

    if (random_once_in(random, 2) && *fd >= 0) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), fd, sizeof(int));
        sendmsg(passing, &message, MSG_DONTWAIT);
        return;
    }
    if (recvmsg(passing, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return;
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) {
        forget(*fd);
        memcpy(fd, CMSG_DATA(header), sizeof(int));
    }
}

static void share(struct random *random) {
    int *fd = any_descriptor(random), *other = any_descriptor(random);

    switch (random_below(random, 3)) {
    case 0:
        if (*fd != *other && *other >= 0) {
            forget(*other);
            dup3(*fd, *other, O_CLOEXEC);
        }
        break;
    case 1:
        forget(*fd);
        break;
    default:
        fcntl(*fd, F_SETFL, random_once_in(random, 2) ? O_NONBLOCK : 0);
    }
}

static void ask_poll(struct random *random) {
    struct pollfd polls[DESCRIPTORS];

    for (int i = 0; i < DESCRIPTORS; i++)
        polls[i] = (struct pollfd){descriptors[i], POLLIN | POLLOUT, 0};
    poll(polls, DESCRIPTORS, random_below(random, 10));
}

static void act(struct random *random, int actions) {
    while (actions-- > 0) {
        uint32_t kind = random_below(random, 20);

        if (kind < 7)
            call(random);
        else if (kind < 14)
            receive(random);
        else if (kind < 16)
            open_end(random);
        else if (kind == 16)
            garbage(random);
        else if (kind == 17)
            pass(random);
        else if (kind == 18)
            share(random);
        else
            ask_poll(random);
    }
}

static void heed_alarm(int signal) { (void)signal; }

void fuzz_message_actor(struct random random, int shared) {
    struct sigaction action = {.sa_handler = heed_alarm,
                               .sa_flags = random_once_in(&random, 2) ? SA_RESTART : 0};
    struct itimerval alarms = {{0, 30000}, {0, 30000}};
    struct random other = random_of(random_below(&random, UINT32_MAX), 0);
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    sigaction(SIGALRM, &action, NULL);
    passing = shared;
    number = (uint64_t)getpid() << 32;
    area = map(PROT_READ | PROT_WRITE);
    moving = map(PROT_READ | PROT_WRITE);
    constant = map(PROT_READ);
    for (int i = 0; i < DESCRIPTORS; i++) {
        descriptors[i] = -1;
        open_end(&random);
    }
    if (random_once_in(&random, 2))
        CHECK(pthread_create(&thread, NULL, move, &other) == 0);
    setitimer(ITIMER_REAL, &alarms, NULL);
    /* Two processes with the same open files. */
    if (random_once_in(&random, 4) && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        number = (uint64_t)getpid() << 32;
        random = other;
    }
    act(&random, random_below(&random, ACTIONS_MOST));
    signal(SIGALRM, SIG_IGN);
    if (random_once_in(&random, 4))
        execl("/bin/true", "true", NULL);
}
