// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// The services, common to all transports: `ping` is three calls, `calculator` is six calls,
/// `timer` is one call that is answered at the next tick, of which only the time from the tick to
/// the answer counts.
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

/// Calls of the client to the server, over one transport. They end the program on errors.
struct service_client {
    void (*name)(char *to, size_t size);
    struct service_version (*version)(void);
    void (*ping)(void);
    int32_t (*calculate)(enum service_operation operation, int32_t a, int32_t b);
    uint64_t (*tick)(void);
};

/// Implements the calculator in the server. A division by 0 gives 0.
int32_t service_calculate(enum service_operation operation, int32_t a, int32_t b);
/// Sleeps until the next tick, a multiple of 10 ms; returns the time after waking (CLOCK_MONOTONIC,
/// ns).
uint64_t service_tick(void);
/// Judges a packet by its headers: accepts UDP over IPv4 without options, to any port but 23. The
/// mark is always the destination port.
/// - packet: at least SERVICE_HEADERS_BYTES bytes.
struct service_verdict service_judge(const uint8_t *packet);
/// Header bytes of a packet to judge: IPv4 without options and UDP.
#define SERVICE_HEADERS_BYTES 28

/// Makes the three calls of `ping`; checks the name and the version.
void service_ping(const struct service_client *client);
/// Makes the six calls of `calculator`; checks the name, the version and the results.
void service_calculator(const struct service_client *client);
/// Makes the call of `timer`; returns the nanoseconds from the server's waking to the arrival of
/// its answer at the client.
uint64_t service_timer(const struct service_client *client);
/// Writes into `packet` the header fields that service_judge reads, of a UDP packet with
/// destination `port`.
void service_packet(uint8_t *packet, uint16_t port);
/// Ends the program if the verdict is wrong for a packet to `port`.
void service_check(struct service_verdict verdict, uint16_t port);
