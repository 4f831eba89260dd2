// SPDX-License-Identifier: GPL-2.0-or-later
// A request of the control socket, read and checked. Pure.
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
    CONTROL_VERSION = 2,        // of the upgrade
    CONTROL_DRAIN_SECONDS = 10, // if none are given
    CONTROL_DRAIN_SECONDS_MAX = 3600,
};

struct control_request {
    enum control_command command;
    bool has_level;
    enum log_level level;
    uint32_t seconds;        // of drain
    uint32_t verdicts;       // of tail: bits 1 << enum verdict
    bool packets;            // of tail
    bool undecided;          // of connections: undecided ones only
    uint64_t from;           // of connections: where to begin
    enum queue_kind backend; // of upgrade
};

/// Reads a line without its line end.
/// - Returns 0, or -EINVAL with failure filled in and *request untouched.
int control_request_parse(const char *line, size_t length, struct control_request *request,
                          struct failure *failure);

#endif
