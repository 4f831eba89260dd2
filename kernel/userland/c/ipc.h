// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Exchanges between two processes, each way in a file of its own (ipc_*.c), which defines `way`. A
/// child serves, the parent calls. Both know how long a request and an answer are; one of them is
/// on its way at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct way {
    /// In the parent, before there is a child.
    void (*open)(size_t request_bytes, size_t answer_bytes);
    /// In the child: answers requests by `ipc_answer` until it is killed.
    void (*serve)(void);
    /// In the parent, when there is a child; may be NULL.
    void (*connect)(void);
    /// In the parent: sends a request and waits for its answer.
    void (*call)(const uint8_t *request, uint8_t *answer);
};

extern const struct way way;

/// What the server makes of a request.
void ipc_answer(const uint8_t *request, uint8_t *answer);
/// The lengths of the exchange, as they were given to `open`.
extern size_t ipc_request_bytes, ipc_answer_bytes;
/// A buffer of the server for a request and one for an answer, in pages of their own.
extern uint8_t *ipc_request_room, *ipc_answer_room;
/// The parent's process id.
extern pid_t ipc_caller;
