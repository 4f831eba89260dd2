// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// What a server is asked, the same by all ways: `ping` is three calls, `calculator` six, `timer` a
/// call that is answered when a tick has come, of which only the way back counts.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SERVICE_NAME "twinwall-lab"
#define SERVICE_MAJOR 1
#define SERVICE_MINOR 2
#define SERVICE_MICRO 3

enum service_operation { SERVICE_ADD, SERVICE_SUBTRACT, SERVICE_MULTIPLY, SERVICE_DIVIDE };
#define SERVICE_OPERATIONS 4

struct service_version {
    uint32_t major, minor, micro;
};

struct service_verdict {
    uint32_t accepted;
    uint32_t mark;
};

/// A way's calls. They end the program if they fail.
struct service_client {
    void (*name)(char *to, size_t size);
    struct service_version (*version)(void);
    void (*ping)(void);
    int32_t (*calculate)(enum service_operation operation, int32_t a, int32_t b);
    uint64_t (*tick)(void);
};

/// The server's half.
int32_t service_calculate(enum service_operation operation, int32_t a, int32_t b);
/// Sleeps until the next tick: its time, CLOCK_MONOTONIC.
uint64_t service_tick(void);
/// Reads a packet's headers: packets of UDP that go to an open port are accepted, with the port as
/// their mark.
struct service_verdict service_judge(const uint8_t *packet);
/// Bytes of a packet that is judged: IPv4 without options and UDP.
#define SERVICE_HEADERS_BYTES 28

/// The exchanges; the answers are checked.
void service_ping(const struct service_client *client);
void service_calculator(const struct service_client *client);
/// Nanoseconds from the tick to its answer.
uint64_t service_timer(const struct service_client *client);
/// Makes bytes a packet of UDP to a port.
void service_packet(uint8_t *packet, uint16_t port);
/// Ends the program if that isn't the verdict for a packet to that port.
void service_check(struct service_verdict verdict, uint16_t port);
