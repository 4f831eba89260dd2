// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Carrier of Thrift's requests and answers: it uses the lab's kernel module. See thrift_carried.h.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include "rpc.h"
#include "twinwall_message.h"

class Carrier {
  public:
    static void open() {
        twinwall_bind bind = {};
        bind.port = getpid();
        bind.queue = QUEUE;
        server_fd = device();
        if (ioctl(server_fd, TWINWALL_MESSAGE_BIND, &bind) != 0)
            fail("TWINWALL_MESSAGE_BIND");
        twinwall_connect connect = {};
        connect.port = bind.port;
        client_fd = device();
        if (ioctl(client_fd, TWINWALL_MESSAGE_CONNECT, &connect) != 0)
            fail("TWINWALL_MESSAGE_CONNECT");
    }

    explicit Carrier(bool serves) : fd_(serves ? server_fd : client_fd) {
        if (!serves)
            close(server_fd);
    }

    size_t call(const std::vector<uint8_t> &request, std::vector<uint8_t> &answer) {
        twinwall_part there = {reinterpret_cast<uintptr_t>(request.data()), request.size()};
        twinwall_part back = {reinterpret_cast<uintptr_t>(answer.data()), answer.size()};
        twinwall_call call = {};
        call.parts = reinterpret_cast<uintptr_t>(&there);
        call.part_count = 1;
        call.answer_room = reinterpret_cast<uintptr_t>(&back);
        call.answer_room_count = 1;
        if (ioctl(fd_, TWINWALL_MESSAGE_CALL, &call) != 0)
            fail("TWINWALL_MESSAGE_CALL");
        return call.answer_length;
    }

    /// Answers the last request, if any, and receives the next one, in one system call.
    size_t receive(const std::vector<uint8_t> &answer, std::vector<uint8_t> &request) {
        twinwall_part back = {reinterpret_cast<uintptr_t>(answer.data()), answer.size()};
        twinwall_part room = {reinterpret_cast<uintptr_t>(request.data()), request.size()};
        twinwall_receive receive = {};
        receive.token = token_;
        receive.answer_parts = reinterpret_cast<uintptr_t>(&back);
        receive.answer_part_count = 1;
        receive.room = reinterpret_cast<uintptr_t>(&room);
        receive.room_count = 1;
        if (ioctl(fd_, TWINWALL_MESSAGE_RECEIVE, &receive) != 0)
            fail("TWINWALL_MESSAGE_RECEIVE");
        token_ = receive.token;
        return receive.length;
    }

  private:
    static constexpr size_t QUEUE = 16;
    static inline int server_fd, client_fd;

    static int device() {
        int fd = ::open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            fail(TWINWALL_MESSAGE_PATH);
        return fd;
    }

    int fd_;
    uint64_t token_ = 0;
};
