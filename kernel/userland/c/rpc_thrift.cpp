// SPDX-License-Identifier: GPL-2.0-or-later
// Thrift, binary protocol: over TCP, a UNIX socket, the lab's module or stapler. Built once for
// each value of WAY. A buffered transport is on top of each, as in Thrift's own servers.
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include "Lab.h"
#include "rpc.h"
#include "thrift_carried.h"

#define WAY_TCP 1
#define WAY_UNIX 2
#define WAY_MESSAGE 3
#define WAY_STAPLER 4

#if WAY == WAY_MESSAGE
#include "thrift_message.h"
#elif WAY == WAY_STAPLER
#include "thrift_stapler.h"
#endif

using namespace apache::thrift;
using protocol::TBinaryProtocol;
using transport::TBufferedTransport;
using transport::TTransport;

namespace {

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

std::unique_ptr<lab::LabClient> client;

#if WAY == WAY_TCP || WAY == WAY_UNIX

std::shared_ptr<transport::TServerSocket> listener;
std::string path;

void thrift_open() {
    path = "/tmp/ipc-thrift-" + std::to_string(getpid());
    listener = WAY == WAY_TCP ? std::make_shared<transport::TServerSocket>("127.0.0.1", 0)
                              : std::make_shared<transport::TServerSocket>(path);
    listener->listen();
}

std::shared_ptr<TTransport> server_end() {
    rpc_ready();
    return listener->accept();
}

std::shared_ptr<TTransport> client_end() {
    auto socket = WAY == WAY_TCP
                      ? std::make_shared<transport::TSocket>("127.0.0.1", listener->getPort())
                      : std::make_shared<transport::TSocket>(path);

    socket->open();
    return socket;
}

void thrift_close() {
    if (WAY == WAY_UNIX)
        unlink(path.c_str());
}

#else

void thrift_open() { Carrier::open(); }

std::shared_ptr<TTransport> server_end() {
    auto end = std::make_shared<Carried<Carrier>>(true);

    rpc_ready();
    return end;
}

std::shared_ptr<TTransport> client_end() { return std::make_shared<Carried<Carrier>>(false); }

void thrift_close() {}

#endif

std::shared_ptr<protocol::TProtocol> above(std::shared_ptr<TTransport> transport) {
    return std::make_shared<TBinaryProtocol>(std::make_shared<TBufferedTransport>(transport));
}

void thrift_serve() {
    lab::LabProcessor processor(std::make_shared<Service>());
    std::shared_ptr<protocol::TProtocol> protocol = above(server_end());

    while (processor.process(protocol, protocol, nullptr))
        ;
}

void thrift_connect() { client = std::make_unique<lab::LabClient>(above(client_end())); }

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
