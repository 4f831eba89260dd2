// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Carrier of Thrift's requests and answers: it uses the kernel module stapler
/// (github.com/lukasz-wiecaszek/stapler). The module is not in this repository; make gets its
/// folder as STAPLER. See thrift_carried.h.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#include "stplr.h"

#include "rpc.h"

class Carrier {
  public:
    static void open() {
        if (pipe2(server, O_CLOEXEC) != 0)
            fail("pipe2");
    }

    /// Opens the device in the server (`serves`) or in the client, which waits for the server's
    /// process id.
    explicit Carrier(bool serves) {
        pid_t self = getpid();

        fd_ = ::open(DEVICE, O_RDWR | O_CLOEXEC);
        if (fd_ < 0 || ioctl(fd_, STPLR_HANDLE_GET, &handle_) != 0)
            fail(DEVICE);
        if (serves && write(server[1], &self, sizeof(self)) != sizeof(self))
            fail("write");
        if (!serves && read(server[0], &pid_, sizeof(pid_)) != sizeof(pid_))
            fail("read");
        tid_ = pid_;
    }

    size_t call(const std::vector<uint8_t> &request, std::vector<uint8_t> &answer) {
        stplr_msg there = message(request), back = message(answer);
        stplr_msg_send_receive call = {};
        call.handle = handle_;
        call.pid = pid_;
        call.tid = tid_;
        call.smsgs = {&there, 1};
        call.rmsgs = {&back, 1};
        if (ioctl(fd_, STPLR_MSG_SEND_RECEIVE, &call) != 0)
            fail("STPLR_MSG_SEND_RECEIVE");
        return back.buflen;
    }

    size_t receive(const std::vector<uint8_t> &answer, std::vector<uint8_t> &request) {
        if (!answer.empty())
            reply(answer);
        stplr_msg room = message(request);
        stplr_msg_receive receive = {};
        receive.handle = handle_;
        receive.rmsgs = {&room, 1};
        if (ioctl(fd_, STPLR_MSG_RECEIVE, &receive) != 0)
            fail("STPLR_MSG_RECEIVE");
        pid_ = receive.pid;
        tid_ = receive.tid;
        return room.buflen;
    }

  private:
    static constexpr const char *DEVICE = "/dev/stplr-0";
    /// A pipe that transfers the server's process id.
    static inline int server[2];

    static stplr_msg message(const std::vector<uint8_t> &bytes) {
        return {const_cast<uint8_t *>(bytes.data()), uint32_t(bytes.size())};
    }

    void reply(const std::vector<uint8_t> &answer) {
        stplr_msg back = message(answer);
        stplr_msg_reply reply = {};
        reply.handle = handle_;
        reply.pid = pid_;
        reply.tid = tid_;
        reply.rmsgs = {&back, 1};
        if (ioctl(fd_, STPLR_MSG_REPLY, &reply) != 0)
            fail("STPLR_MSG_REPLY");
    }

    int fd_;
    stplr_handle handle_ = {};
    /// Process and thread id of the peer: in the client the server's, in the server the client's of
    /// the current request.
    pid_t pid_ = 0, tid_ = 0;
};
