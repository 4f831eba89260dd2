// SPDX-License-Identifier: GPL-2.0-or-later
// One client of the control socket: its buffer of requests and the answer to send. Nothing here
// blocks, and its memory is bounded whatever the client does.
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/proof.h"

enum {
    CONTROL_LINE_BYTES = 64 * 1024, // maximum length of a request with its line end, in bytes
    // Time within which a client must read a part of its answer, in milliseconds.
    CONTROL_READ_MS = 10 * 1000,
};

/// A client of the control socket.
struct control_client {
    int fd;    // descriptor of the connection; -1 = closed
    uid_t uid; // user of the client
    // Proof that the client must send before an upgrade: the client's PID, and the number of its
    // connection to the control socket.
    struct proof proof;
    char *bytes;   // buffer of CONTROL_LINE_BYTES for received bytes that are not served yet
    size_t filled; // number of received bytes in bytes
    size_t looked; // number of bytes at the start of bytes that were searched and hold no line end
    bool ended;    // true if the client has closed its sending side
    char *answer;  // answer that is being sent; NULL if no answer is due
    size_t length; // length of the answer in bytes
    size_t sent;   // number of bytes of the answer that were sent
    // Time by which the client must have read more of the answer (monotonic, in milliseconds).
    uint64_t due_ms;
    bool closing; // true if the connection must be closed as soon as the answer is sent
};

/// Result of the search for a line in a client's buffer.
enum control_line {
    CONTROL_LINE_NONE,     // no complete line yet
    CONTROL_LINE_WHOLE,    // a complete line, without its line end
    CONTROL_LINE_TOO_LONG, // the buffer is full and holds no line end
    CONTROL_LINE_CUT,      // the client closed its sending side within a line
};

/// Creates a client from a non-blocking connection, which it owns from now on.
/// - Returns 0; or -ENOMEM with *client untouched, and the caller still owns the connection.
int control_client_make(struct control_client *client, int fd, uid_t uid,
                        const struct proof *proof);

/// Closes the connection and frees the client's memory.
void control_client_close(struct control_client *client);

/// Receives bytes into the buffer without blocking. Does nothing while an answer is due, if the
/// buffer is full, or if the client has closed its sending side.
/// - Returns 0, or -errno if the connection is broken.
int control_client_receive(struct control_client *client);

/// Finds the first line in the buffer.
/// - line, length: out: the line without its line end, for CONTROL_LINE_WHOLE; valid until
///   control_client_next.
enum control_line control_client_line(struct control_client *client, const char **line,
                                      size_t *length);

/// Removes the first line from the buffer. control_client_line must have found it.
void control_client_next(struct control_client *client);

/// Sets the answer to send. No other answer may be due.
/// - answer: owned by *client from now on.
void control_client_answer(struct control_client *client, char *answer, uint64_t now_ms);

/// Sends as much of the answer as possible without blocking.
/// - Returns 0, -ETIMEDOUT if the client has not read for too long, or the -errno of a broken
///   connection.
int control_client_send_answer(struct control_client *client, uint64_t now_ms);

/// Returns the events for which to poll the connection.
short control_client_events(const struct control_client *client);

/// Returns the milliseconds after which the client must be served even without an event; -1 = no
/// limit.
int control_client_timeout(const struct control_client *client, uint64_t now_ms);

#endif
