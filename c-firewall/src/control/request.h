// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of the requests of the control socket. Has no side effects.
#ifndef CONTROL_REQUEST_H
#define CONTROL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "queue/queue.h"

enum control_command {
    CONTROL_STATUS,
    CONTROL_STATS,
    CONTROL_RULES,
    CONTROL_RELOAD,
    CONTROL_LOG,
    CONTROL_DRAIN,
    CONTROL_TAIL,
    CONTROL_PROOF,
    CONTROL_CONNECTIONS,
    CONTROL_UPGRADE,
    CONTROL_COMMAND_COUNT
};

enum {
    CONTROL_VERSION = 2,        // version of the protocol of `upgrade`
    CONTROL_DRAIN_SECONDS = 10, // maximum duration of a drain in seconds if the request has none
    CONTROL_DRAIN_SECONDS_MAX = 3600,
};

/// A parsed request. Fields that do not belong to the command have their default.
struct control_request {
    enum control_command command;
    bool has_level;
    enum log_level level;
    uint32_t seconds;  // drain: maximum duration in seconds
    uint32_t verdicts; // `tail`: wanted packets, by the bits 1 << enum verdict
    bool packets;      // tail: true if the events include the packets' bytes
    bool undecided;    // `connections`: true for only the connections whose names are undecided
    uint64_t from;     // connections: position at which the page begins
    enum queue_kind backend; // upgrade: packet backend of the new firewall
};

/// Parses a request line without its line end.
/// - Returns 0, or -EINVAL with failure filled in and *request untouched.
int control_request_parse(const char *line, size_t length, struct control_request *request,
                          struct failure *failure);

#endif
