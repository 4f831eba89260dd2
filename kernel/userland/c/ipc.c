// SPDX-License-Identifier: GPL-2.0-or-later
// The operations, common to all transports: `call` sends BYTES and receives 8 bytes; `verdict`
// sends a packet of BYTES and receives a verdict with a mark, like a query to a second firewall;
// `verdicts` sends 64 such packets in one request; further operations are the services of
// service.h.
#include "ipc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"
#include "service.h"

#define PACKETS 64
#define REQUEST_MOST (1 << 20)

enum method { METHOD_NAME, METHOD_VERSION, METHOD_PING, METHOD_TICK, METHOD_CALCULATE };

/// Request to a service. `method` is an enum method; for an operation of the calculator, it is
/// METHOD_CALCULATE plus the operation's number.
struct ask {
    uint32_t method;
    int32_t a, b;
    uint32_t reserved;
};

union told {
    char name[32];
    struct service_version version;
    int32_t result;
    uint64_t tick;
};

size_t ipc_request_bytes, ipc_answer_bytes;
uint8_t *ipc_request_room, *ipc_answer_room;
pid_t ipc_caller;

static void (*answer_of)(const uint8_t *, uint8_t *);
static size_t packet_bytes;
static uint8_t *request, *answer;
static pid_t server;
static uint32_t number;

void ipc_answer(const uint8_t *from, uint8_t *to) { answer_of(from, to); }

static uint8_t *pages(size_t length) {
    void *memory = mmap(NULL, length ? length : 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        fail("mmap");
    return memory;
}

/// Answers with the first and last byte of the request, so that a missing part is noticed.
static void answer_ends(const uint8_t *from, uint8_t *to) {
    uint64_t sum = from[0] + ((uint64_t)from[ipc_request_bytes - 1] << 32);

    memcpy(to, &sum, sizeof(sum));
}

static void answer_verdicts(const uint8_t *from, uint8_t *to) {
    struct service_verdict *verdicts = (struct service_verdict *)to;

    for (size_t i = 0; i < ipc_request_bytes / packet_bytes; i++)
        verdicts[i] = service_judge(from + i * packet_bytes);
}

static void answer_service(const uint8_t *from, uint8_t *to) {
    const struct ask *ask = (const struct ask *)from;
    union told *told = (union told *)to;

    if (ask->method == METHOD_NAME)
        strcpy(told->name, SERVICE_NAME);
    else if (ask->method == METHOD_VERSION)
        told->version = (struct service_version){SERVICE_MAJOR, SERVICE_MINOR, SERVICE_MICRO};
    else if (ask->method == METHOD_TICK)
        told->tick = service_tick();
    else if (ask->method >= METHOD_CALCULATE)
        told->result = service_calculate(ask->method - METHOD_CALCULATE, ask->a, ask->b);
}

static void start(size_t request_bytes, size_t answer_bytes) {
    if (request_bytes == 0 || request_bytes > REQUEST_MOST)
        fail_because("BYTES", "1 to 1048576 in a request");
    ipc_request_bytes = request_bytes;
    ipc_answer_bytes = answer_bytes;
    request = pages(request_bytes);
    answer = pages(answer_bytes);
    ipc_request_room = pages(request_bytes);
    ipc_answer_room = pages(answer_bytes);
    ipc_caller = getpid();
    way.open(request_bytes, answer_bytes);
    server = fork();
    if (server < 0)
        fail("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        way.serve();
        _exit(1);
    }
    exchange_peer(server);
    if (way.connect)
        way.connect();
}

static void finish(void) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    exchange_peer(0);
}

static void open_call(size_t bytes) {
    answer_of = answer_ends;
    start(bytes, sizeof(uint64_t));
}

static void call(void) {
    uint64_t sum;

    number++;
    request[0] = number;
    request[ipc_request_bytes - 1] = number;
    way.call(request, answer);
    memcpy(&sum, answer, sizeof(sum));
    if ((uint8_t)sum != (uint8_t)number || (uint8_t)(sum >> 32) != (uint8_t)number)
        fail_because("call", "not its answer");
}

static void open_packets(size_t bytes, size_t count) {
    if (bytes < SERVICE_HEADERS_BYTES)
        fail_because("BYTES", "a packet has 28 or more");
    packet_bytes = bytes;
    answer_of = answer_verdicts;
    start(bytes * count, count * sizeof(struct service_verdict));
}

static void open_verdict(size_t bytes) { open_packets(bytes, 1); }

static void open_verdicts(size_t bytes) { open_packets(bytes, PACKETS); }

static void ask_verdicts(void) {
    size_t count = ipc_answer_bytes / sizeof(struct service_verdict);

    number++;
    for (size_t i = 0; i < count; i++)
        service_packet(request + i * packet_bytes, number + i);
    way.call(request, answer);
    for (size_t i = 0; i < count; i++)
        service_check(((struct service_verdict *)answer)[i], number + i);
}

/// Starts the server process for `ping`, `calculator` or `timer`. Their messages have fixed
/// lengths, so the command line's argument BYTES must be 0.
static void open_service(size_t bytes) {
    if (bytes != 0)
        fail_because("BYTES", "0 for a service");
    answer_of = answer_service;
    start(sizeof(struct ask), sizeof(union told));
}

static const union told *ask(uint32_t method, int32_t a, int32_t b) {
    *(struct ask *)request = (struct ask){.method = method, .a = a, .b = b};
    way.call(request, answer);
    return (const union told *)answer;
}

static void ask_name(char *to, size_t size) { strncpy(to, ask(METHOD_NAME, 0, 0)->name, size - 1); }

static struct service_version ask_version(void) { return ask(METHOD_VERSION, 0, 0)->version; }

static void ask_ping(void) { ask(METHOD_PING, 0, 0); }

static int32_t ask_calculate(enum service_operation operation, int32_t a, int32_t b) {
    return ask(METHOD_CALCULATE + operation, a, b)->result;
}

static uint64_t ask_tick(void) { return ask(METHOD_TICK, 0, 0)->tick; }

static const struct service_client client = {ask_name, ask_version, ask_ping, ask_calculate,
                                             ask_tick};

static void ping(void) { service_ping(&client); }

static void calculator(void) { service_calculator(&client); }

static uint64_t timer(void) { return service_timer(&client); }

int main(int count, char **arguments) {
    static const struct operation operations[] = {
        {"call", open_call, call, finish, NULL},
        {"verdict", open_verdict, ask_verdicts, finish, NULL},
        {"verdicts", open_verdicts, ask_verdicts, finish, NULL},
        {"ping", open_service, ping, finish, NULL},
        {"calculator", open_service, calculator, finish, NULL},
        {"timer", open_service, NULL, finish, timer},
        {0},
    };

    return exchange_main(count, arguments, operations);
}
