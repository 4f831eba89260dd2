// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Exchanges between two processes. Each transport is a file of its own (ipc_*.c), which defines
/// `way`. A child serves, the parent calls. Both know the lengths of request and answer; only one
/// message is in transit at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct way {
    /// Prepares the transport. Called in the parent, before the child is started.
    void (*open)(size_t request_bytes, size_t answer_bytes);
    /// Called in the child: answers requests by `ipc_answer` until it is killed.
    void (*serve)(void);
    /// Completes the caller's end of the transport. Called in the parent, after the child was
    /// started; may be NULL.
    void (*connect)(void);
    /// Called in the parent: sends a request and waits for its answer.
    void (*call)(const uint8_t *request, uint8_t *answer);
};

extern const struct way way;

/// Computes the server's answer to a request.
void ipc_answer(const uint8_t *request, uint8_t *answer);
/// Lengths of a request and of an answer in bytes, as passed to `open`.
extern size_t ipc_request_bytes, ipc_answer_bytes;
/// Buffers of the server process for a request and an answer, each in private pages of its own.
extern uint8_t *ipc_request_room, *ipc_answer_room;
/// Process id of the parent.
extern pid_t ipc_caller;
