// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// A Thrift transport over a carrier, which transfers whole requests and whole answers: a class
/// `Carrier` with
///   open()                    called in the parent, before the child is started
///   Carrier(serves)           creates an end, in its own process
///   call(request, answer)     client: sends a request, waits for the answer; returns its length
///   receive(answer, request)  server: answers the last request, if any, waits for the next one;
///                             returns its length
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <thrift/transport/TVirtualTransport.h>

#include "rpc.h"

template <class Carrier>
class Carried : public apache::thrift::transport::TVirtualTransport<Carried<Carrier>> {
  public:
    explicit Carried(bool serves)
        : carrier_(serves), serves_(serves), in_(serves ? REQUEST_MOST : ANSWER_MOST) {}
    bool isOpen() const override { return true; }
    void open() override {}
    void close() override {}

    uint32_t read(uint8_t *to, uint32_t length) {
        if (at_ == came_ && serves_)
            arrived(carrier_.receive(out_, in_));
        uint32_t part = std::min<size_t>(length, came_ - at_);
        memcpy(to, in_.data() + at_, part);
        at_ += part;
        return part;
    }

    void write(const uint8_t *from, uint32_t length) {
        out_.insert(out_.end(), from, from + length);
    }

    /// A client waits for its answer here. A server sends its answer when it waits for the next
    /// request.
    void flush() override {
        if (!serves_)
            arrived(carrier_.call(out_, in_));
    }

  private:
    static constexpr size_t REQUEST_MOST = RPC_PACKET_MOST + 4096;
    static constexpr size_t ANSWER_MOST = 1024;

    void arrived(size_t length) {
        out_.clear();
        came_ = length;
        at_ = 0;
    }

    Carrier carrier_;
    bool serves_;
    std::vector<uint8_t> in_, out_;
    size_t came_ = 0, at_ = 0;
};
