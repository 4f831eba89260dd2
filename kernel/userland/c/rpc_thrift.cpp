// SPDX-License-Identifier: GPL-2.0-or-later
// Thrift, binary protocol: over TCP, a UNIX socket, or the lab's module. Built once for each, as
// WAY says. A buffered transport stands above each, as Thrift's own servers have it.
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netinet/tcp.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>
#include <thrift/transport/TVirtualTransport.h>

#include "Lab.h"
#include "rpc.h"
#include "twinwall_message.h"

#define WAY_TCP 1
#define WAY_UNIX 2
#define WAY_MESSAGE 3

using namespace apache::thrift;
using protocol::TBinaryProtocol;
using transport::TBufferedTransport;
using transport::TTransport;

namespace {

constexpr size_t QUEUE = 16;
constexpr size_t REQUEST_MOST = RPC_PACKET_MOST + 4096;
constexpr size_t ANSWER_MOST = 1024;

class Service : public lab::LabIf {
  public:
    void name(std::string &name) override { name = SERVICE_NAME; }
    void version(lab::Version &version) override {
        version.major = SERVICE_MAJOR;
        version.minor = SERVICE_MINOR;
        version.micro = SERVICE_MICRO;
    }
    void ping() override {}
    int32_t add(int32_t a, int32_t b) override { return service_calculate(SERVICE_ADD, a, b); }
    int32_t subtract(int32_t a, int32_t b) override {
        return service_calculate(SERVICE_SUBTRACT, a, b);
    }
    int32_t multiply(int32_t a, int32_t b) override {
        return service_calculate(SERVICE_MULTIPLY, a, b);
    }
    int32_t divide(int32_t a, int32_t b) override {
        return service_calculate(SERVICE_DIVIDE, a, b);
    }
    int64_t tick() override { return service_tick(); }
    void verdict(lab::Verdict &verdict, const std::string &packet) override {
        if (packet.size() < SERVICE_HEADERS_BYTES)
            fail_because("verdict", "no packet");
        service_verdict judged = service_judge(reinterpret_cast<const uint8_t *>(packet.data()));
        verdict.accepted = judged.accepted;
        verdict.mark = judged.mark;
    }
};

/// What both ends over the module have: bytes that came, and how many of them were read.
class Message : public transport::TVirtualTransport<Message> {
  public:
    Message(int fd, bool serves) : fd_(fd), serves_(serves), in_(REQUEST_MOST) {}
    bool isOpen() const override { return true; }
    void open() override {}
    void close() override {}

    uint32_t read(uint8_t *to, uint32_t length) {
        if (at_ == came_ && serves_)
            receive();
        uint32_t part = std::min<size_t>(length, came_ - at_);
        memcpy(to, in_.data() + at_, part);
        at_ += part;
        return part;
    }

    void write(const uint8_t *from, uint32_t length) {
        out_.insert(out_.end(), from, from + length);
    }

    /// A caller waits for its answer here. A server's answer goes out when it waits for the next
    /// request, in one system call.
    void flush() override {
        if (!serves_)
            call();
    }

  private:
    void call() {
        twinwall_part there = {reinterpret_cast<uintptr_t>(out_.data()), out_.size()};
        twinwall_part back = {reinterpret_cast<uintptr_t>(in_.data()), ANSWER_MOST};
        twinwall_call call = {};
        call.parts = reinterpret_cast<uintptr_t>(&there);
        call.part_count = 1;
        call.answer_room = reinterpret_cast<uintptr_t>(&back);
        call.answer_room_count = 1;
        if (ioctl(fd_, TWINWALL_MESSAGE_CALL, &call) != 0)
            fail("TWINWALL_MESSAGE_CALL");
        out_.clear();
        came_ = call.answer_length;
        at_ = 0;
    }

    void receive() {
        twinwall_part answer = {reinterpret_cast<uintptr_t>(out_.data()), out_.size()};
        twinwall_part room = {reinterpret_cast<uintptr_t>(in_.data()), in_.size()};
        twinwall_receive receive = {};
        receive.token = token_;
        receive.answer_parts = reinterpret_cast<uintptr_t>(&answer);
        receive.answer_part_count = 1;
        receive.room = reinterpret_cast<uintptr_t>(&room);
        receive.room_count = 1;
        if (ioctl(fd_, TWINWALL_MESSAGE_RECEIVE, &receive) != 0)
            fail("TWINWALL_MESSAGE_RECEIVE");
        out_.clear();
        token_ = receive.token;
        came_ = receive.length;
        at_ = 0;
    }

    int fd_;
    bool serves_;
    std::vector<uint8_t> in_, out_;
    size_t came_ = 0, at_ = 0;
    uint64_t token_ = 0;
};

std::shared_ptr<transport::TServerSocket> listener;
std::string path;
int server_fd, client_fd;
std::unique_ptr<lab::LabClient> client;

int device() {
    int fd = open(TWINWALL_MESSAGE_PATH, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fail(TWINWALL_MESSAGE_PATH);
    return fd;
}

void open_message() {
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

void thrift_open() {
    if (WAY == WAY_MESSAGE) {
        open_message();
        return;
    }
    path = "/tmp/ipc-thrift-" + std::to_string(getpid());
    listener = WAY == WAY_TCP ? std::make_shared<transport::TServerSocket>("127.0.0.1", 0)
                              : std::make_shared<transport::TServerSocket>(path);
    listener->listen();
}

std::shared_ptr<protocol::TProtocol> above(std::shared_ptr<TTransport> transport) {
    return std::make_shared<TBinaryProtocol>(std::make_shared<TBufferedTransport>(transport));
}

void thrift_serve() {
    lab::LabProcessor processor(std::make_shared<Service>());
    std::shared_ptr<TTransport> transport;

    rpc_ready();
    if (WAY == WAY_MESSAGE)
        transport = std::make_shared<Message>(server_fd, true);
    else
        transport = listener->accept();
    std::shared_ptr<protocol::TProtocol> protocol = above(transport);
    while (processor.process(protocol, protocol, nullptr))
        ;
}

void thrift_connect() {
    std::shared_ptr<TTransport> transport;

    if (WAY == WAY_MESSAGE) {
        close(server_fd);
        transport = std::make_shared<Message>(client_fd, false);
    } else if (WAY == WAY_TCP) {
        transport = std::make_shared<transport::TSocket>("127.0.0.1", listener->getPort());
    } else {
        transport = std::make_shared<transport::TSocket>(path);
    }
    if (WAY != WAY_MESSAGE)
        transport->open();
    client = std::make_unique<lab::LabClient>(above(transport));
}

void thrift_close() {
    if (WAY == WAY_UNIX)
        unlink(path.c_str());
}

void ask_name(char *to, size_t size) {
    std::string name;

    client->name(name);
    strncpy(to, name.c_str(), size - 1);
}

service_version ask_version() {
    lab::Version version;

    client->version(version);
    return {uint32_t(version.major), uint32_t(version.minor), uint32_t(version.micro)};
}

void ask_ping() { client->ping(); }

int32_t ask_calculate(service_operation operation, int32_t a, int32_t b) {
    switch (operation) {
    case SERVICE_ADD:
        return client->add(a, b);
    case SERVICE_SUBTRACT:
        return client->subtract(a, b);
    case SERVICE_MULTIPLY:
        return client->multiply(a, b);
    default:
        return client->divide(a, b);
    }
}

uint64_t ask_tick() { return client->tick(); }

service_verdict ask_verdict(const uint8_t *packet, size_t length) {
    lab::Verdict verdict;

    client->verdict(verdict, std::string(reinterpret_cast<const char *>(packet), length));
    return {uint32_t(verdict.accepted), uint32_t(verdict.mark)};
}

} // namespace

extern "C" const struct rpc rpc = {
    thrift_open,
    thrift_serve,
    thrift_connect,
    thrift_close,
    {ask_name, ask_version, ask_ping, ask_calculate, ask_tick},
    ask_verdict,
};
