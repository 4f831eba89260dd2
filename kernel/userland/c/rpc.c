// SPDX-License-Identifier: GPL-2.0-or-later
#include "rpc.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int ready[2];
static pid_t server;
static uint8_t packet[RPC_PACKET_MOST];
static size_t packet_bytes;
static uint16_t port;

void rpc_ready(void) {
    if (write(ready[1], "r", 1) != 1)
        fail("ready");
}

static void start(size_t bytes) {
    char byte;

    packet_bytes = bytes;
    if (pipe(ready) != 0)
        fail("pipe");
    rpc.open();
    server = fork();
    if (server < 0)
        fail("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        rpc.serve();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        fail_because("the server", "has ended");
    exchange_peer(server);
    rpc.connect();
}

static void open_service(size_t bytes) {
    if (bytes != 0)
        fail_because("BYTES", "0 for a service");
    start(0);
}

static void open_verdict(size_t bytes) {
    if (bytes < SERVICE_HEADERS_BYTES || bytes > sizeof(packet))
        fail_because("BYTES", "a packet has 28 to 65536");
    start(bytes);
}

static void finish(void) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    exchange_peer(0);
    if (rpc.close)
        rpc.close();
}

static void ping(void) { service_ping(&rpc.client); }

static void calculator(void) { service_calculator(&rpc.client); }

static uint64_t timer(void) { return service_timer(&rpc.client); }

static void ask_verdict(void) {
    service_packet(packet, ++port);
    service_check(rpc.verdict(packet, packet_bytes), port);
}

int main(int count, char **arguments) {
    static const struct operation operations[] = {
        {"verdict", open_verdict, ask_verdict, finish, NULL},
        {"ping", open_service, ping, finish, NULL},
        {"calculator", open_service, calculator, finish, NULL},
        {"timer", open_service, NULL, finish, timer},
        {0},
    };

    return exchange_main(count, arguments, operations);
}
