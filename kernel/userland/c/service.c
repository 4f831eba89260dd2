// SPDX-License-Identifier: GPL-2.0-or-later
#include "service.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "exchange.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define TICK_NS UINT64_C(10000000)
#define PORT_OFFSET 22
#define PROTOCOL_OFFSET 9
#define UDP 17
#define IPV4_WITHOUT_OPTIONS 0x45
/// The UDP destination port whose packets the server does not accept.
#define CLOSED_PORT 23

static uint64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

int32_t service_calculate(enum service_operation operation, int32_t a, int32_t b) {
    switch (operation) {
    case SERVICE_ADD:
        return a + b;
    case SERVICE_SUBTRACT:
        return a - b;
    case SERVICE_MULTIPLY:
        return a * b;
    case SERVICE_DIVIDE:
        break;
    }
    return b == 0 ? 0 : a / b;
}

uint64_t service_tick(void) {
    uint64_t tick = (now_ns() / TICK_NS + 1) * TICK_NS;
    struct timespec until = {tick / NS_PER_SECOND, tick % NS_PER_SECOND};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
    return now_ns();
}

struct service_verdict service_judge(const uint8_t *packet) {
    uint32_t port = packet[PORT_OFFSET] << 8 | packet[PORT_OFFSET + 1];
    bool known = packet[0] == IPV4_WITHOUT_OPTIONS && packet[PROTOCOL_OFFSET] == UDP;

    return (struct service_verdict){.accepted = known && port != CLOSED_PORT, .mark = port};
}

static void check_names(const struct service_client *client) {
    char name[32] = "";

    client->name(name, sizeof(name));
    struct service_version version = client->version();
    if (strcmp(name, SERVICE_NAME) != 0 || version.major != SERVICE_MAJOR ||
        version.minor != SERVICE_MINOR || version.micro != SERVICE_MICRO)
        fail_because("name", "another service");
}

void service_ping(const struct service_client *client) {
    check_names(client);
    client->ping();
}

void service_calculator(const struct service_client *client) {
    static const int32_t results[] = {103, 97, 300, 33};

    check_names(client);
    for (int i = 0; i < SERVICE_OPERATIONS; i++)
        if (client->calculate(i, 100, 3) != results[i])
            fail_because("calculator", "a wrong result");
}

uint64_t service_timer(const struct service_client *client) {
    uint64_t tick = client->tick();

    return now_ns() - tick;
}

void service_packet(uint8_t *packet, uint16_t port) {
    packet[0] = IPV4_WITHOUT_OPTIONS;
    packet[PROTOCOL_OFFSET] = UDP;
    packet[PORT_OFFSET] = port >> 8;
    packet[PORT_OFFSET + 1] = port;
}

void service_check(struct service_verdict verdict, uint16_t port) {
    if (verdict.mark != port || verdict.accepted != (port != CLOSED_PORT))
        fail_because("verdict", "not its packet's");
}
