// SPDX-License-Identifier: GPL-2.0-or-later
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "guest.h"

int device_open(int flags) {
    int fd = open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC | flags);

    CHECK(fd >= 0);
    return fd;
}

int message_bind(int fd, uint32_t port, uint32_t queue, uint32_t flags) {
    struct twinwall_bind bind = {.port = port, .queue = queue, .flags = flags};

    return ioctl(fd, TWINWALL_MESSAGE_BIND, &bind) ? -errno : 0;
}

int message_connect(int fd, uint32_t port) {
    struct twinwall_connect connect = {.port = port};

    return ioctl(fd, TWINWALL_MESSAGE_CONNECT, &connect) ? -errno : 0;
}

int server_open(uint32_t queue) {
    int fd = device_open(0);

    CHECK_EQUAL(message_bind(fd, PORT, queue, 0), 0);
    return fd;
}

int client_open(void) {
    int fd = device_open(0);

    CHECK_EQUAL(message_connect(fd, PORT), 0);
    return fd;
}

uint64_t deadline_in(double seconds) {
    return seconds > 0 ? now_ns() + (uint64_t)(seconds * 1e9) : 0;
}

static struct twinwall_part part(const void *address, size_t length) {
    return (struct twinwall_part){(uintptr_t)address, length};
}

long message_call(int fd, const void *request, size_t length, void *room, size_t room_length,
                  double seconds) {
    struct twinwall_part out = part(request, length), in = part(room, room_length);
    struct twinwall_call call = {.parts = (uintptr_t)&out,
                                 .part_count = 1,
                                 .answer_room = (uintptr_t)&in,
                                 .answer_room_count = 1,
                                 .deadline_ns = deadline_in(seconds)};

    return ioctl(fd, TWINWALL_MESSAGE_CALL, &call) ? -errno : (long)call.answer_length;
}

long message_send(int fd, const void *request, size_t length) {
    struct twinwall_part out = part(request, length);
    struct twinwall_call call = {
        .parts = (uintptr_t)&out, .part_count = 1, .flags = TWINWALL_ONE_WAY};

    return ioctl(fd, TWINWALL_MESSAGE_CALL, &call) ? -errno : 0;
}

int message_take(int fd, void *room, size_t room_length, double seconds,
                 struct twinwall_receive *taken) {
    struct twinwall_part in = part(room, room_length);

    *taken = (struct twinwall_receive){
        .room = (uintptr_t)&in, .room_count = 1, .deadline_ns = deadline_in(seconds)};
    return ioctl(fd, TWINWALL_MESSAGE_RECEIVE, taken) ? -errno : 0;
}

int message_answer(int fd, uint64_t token, const void *answer, size_t length) {
    struct twinwall_part out = part(answer, length);
    struct twinwall_receive receive = {.token = token,
                                       .answer_parts = (uintptr_t)&out,
                                       .answer_part_count = 1,
                                       .flags = TWINWALL_ANSWER_ONLY};

    return ioctl(fd, TWINWALL_MESSAGE_RECEIVE, &receive) ? -errno : 0;
}

void serve_echo(int fd) {
    static uint8_t room[TWINWALL_MESSAGE_BYTES_MOST];
    struct twinwall_part out = part(room, 0), in = part(room, sizeof(room));
    struct twinwall_receive receive = {.answer_parts = (uintptr_t)&out,
                                       .answer_part_count = 1,
                                       .room = (uintptr_t)&in,
                                       .room_count = 1};

    for (;;) {
        if (ioctl(fd, TWINWALL_MESSAGE_RECEIVE, &receive)) {
            /* If the caller is gone, the answer only uses up its token. */
            if (errno != ECANCELED && errno != EINTR && errno != EMSGSIZE)
                guest_fail(__FILE__, __LINE__, "receive: %s", strerror(errno));
            if (errno == EMSGSIZE)
                out.length = 0;
            continue;
        }
        out.length = receive.length;
    }
}
