// SPDX-License-Identifier: GPL-2.0-or-later
// One client of the control socket: the lines that it sends, the answer that it is to read. Nothing
// here waits, and nothing grows with what a client does.
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/proof.h"

enum {
    CONTROL_LINE_BYTES = 64 * 1024, // of a request with its line end
    CONTROL_READ_MS = 10 * 1000,    // the time within which a client reads some of its answer
};

struct control_client {
    int fd;             // -1 = gone
    uid_t uid;          // identity of the peer
    struct proof proof; // of the connection, and the process that made it
    char *bytes;        // CONTROL_LINE_BYTES of them: what it sent and was not served yet
    size_t filled;
    size_t looked;   // of them hold no line end
    bool ended;      // it sends no more
    char *answer;    // NULL = none is due
    size_t length;   // of the answer
    size_t sent;     // of the answer
    uint64_t due_ms; // deadline for reading more of the answer (monotonic time)
    bool closing;    // close the connection once the answer is sent
};

/// Contents of a client's buffer.
enum control_line {
    CONTROL_LINE_NONE,     // no line yet
    CONTROL_LINE_WHOLE,    // a line
    CONTROL_LINE_TOO_LONG, // more than fits, without a line end
    CONTROL_LINE_CUT,      // the client ended within a line
};

/// Makes a client of a connection, which does not block and belongs to the client from now on.
/// - Returns 0, or -ENOMEM with *client untouched and the connection still the caller's.
int control_client_make(struct control_client *client, int fd, uid_t uid,
                        const struct proof *proof);

/// Closes and frees.
void control_client_close(struct control_client *client);

/// Reads what has arrived, as far as there is room. Does nothing while an answer is due.
/// - Returns 0, or -errno if the connection is broken.
int control_client_receive(struct control_client *client);

/// Finds the first line. line, length: filled in if it is whole, without the line end; the line
/// stays until control_client_next.
enum control_line control_client_line(struct control_client *client, const char **line,
                                      size_t *length);

/// Removes the first line, which is whole.
void control_client_next(struct control_client *client);

/// Has an answer sent, which belongs to the client from now on. None is due yet.
void control_client_answer(struct control_client *client, char *answer, uint64_t now_ms);

/// Sends what can be sent of the answer.
/// - Returns 0, -ETIMEDOUT if the client has not read for too long, or the -errno of a broken
///   connection.
int control_client_send_answer(struct control_client *client, uint64_t now_ms);

/// Events to poll the connection for.
short control_client_events(const struct control_client *client);

/// In how many milliseconds there is something to do without any event; -1 = never.
int control_client_timeout(const struct control_client *client, uint64_t now_ms);

#endif
