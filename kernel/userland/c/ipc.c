// SPDX-License-Identifier: GPL-2.0-or-later
// What is asked, the same in all ways: `call`, BYTES there and 8 bytes back; `verdict`, a packet of
// BYTES there and a verdict with a mark back, as a second firewall would be asked; `verdicts`, 64
// such packets in one request.
#include "ipc.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"

#define PACKETS 64
#define REQUEST_MOST (1 << 20)
/// IPv4 without options and UDP.
#define HEADERS_BYTES 28
#define PORT_OFFSET 22
#define PROTOCOL_OFFSET 9
#define UDP 17
/// The port whose packets the server drops.
#define CLOSED_PORT 23

struct verdict {
    uint32_t accepted;
    uint32_t mark;
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

/// Both ends of the request, so that a part of it that didn't come shows.
static void answer_ends(const uint8_t *from, uint8_t *to) {
    uint64_t sum = from[0] + ((uint64_t)from[ipc_request_bytes - 1] << 32);

    memcpy(to, &sum, sizeof(sum));
}

/// Reads a packet's headers: packets of UDP that go to an open port are accepted, with the port as
/// their mark.
static void judge(const uint8_t *packet, uint8_t *to) {
    uint32_t port = packet[PORT_OFFSET] << 8 | packet[PORT_OFFSET + 1];
    bool known = packet[0] == 0x45 && packet[PROTOCOL_OFFSET] == UDP;
    struct verdict verdict = {.accepted = known && port != CLOSED_PORT, .mark = port};

    memcpy(to, &verdict, sizeof(verdict));
}

static void answer_verdicts(const uint8_t *from, uint8_t *to) {
    for (size_t i = 0; i < ipc_request_bytes / packet_bytes; i++)
        judge(from + i * packet_bytes, to + i * sizeof(struct verdict));
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
    if (bytes < HEADERS_BYTES)
        fail_because("BYTES", "a packet has 28 or more");
    packet_bytes = bytes;
    answer_of = answer_verdicts;
    start(bytes * count, count * sizeof(struct verdict));
    for (size_t i = 0; i < count; i++) {
        request[i * bytes] = 0x45;
        request[i * bytes + PROTOCOL_OFFSET] = UDP;
    }
}

static void open_verdict(size_t bytes) { open_packets(bytes, 1); }

static void open_verdicts(size_t bytes) { open_packets(bytes, PACKETS); }

static void ask_verdicts(void) {
    size_t count = ipc_answer_bytes / sizeof(struct verdict);

    number++;
    for (size_t i = 0; i < count; i++) {
        request[i * packet_bytes + PORT_OFFSET] = (number + i) >> 8;
        request[i * packet_bytes + PORT_OFFSET + 1] = number + i;
    }
    way.call(request, answer);
    for (size_t i = 0; i < count; i++) {
        struct verdict verdict;
        uint32_t port = (number + i) & 0xffff;

        memcpy(&verdict, answer + i * sizeof(verdict), sizeof(verdict));
        if (verdict.mark != port || verdict.accepted != (port != CLOSED_PORT))
            fail_because("verdict", "not its packet's");
    }
}

int main(int count, char **arguments) {
    static const struct operation operations[] = {
        {"call", open_call, call, finish},
        {"verdict", open_verdict, ask_verdicts, finish},
        {"verdicts", open_verdicts, ask_verdicts, finish},
        {0},
    };

    return exchange_main(count, arguments, operations);
}
