// SPDX-License-Identifier: GPL-2.0-or-later
// Where lines of events go: a file, stdout, a listener's Unix socket, or a client that follows.
// None of them ever keeps anybody waiting but the thread of events; what finds no room is counted,
// and the state of a sink is told once when it changes.
//
// Theory of operation: lines are put into `pending` under the lock of events; the thread swaps it
// with `writing`, if that has been written, and writes without the lock. A line that was written in
// part is completed where it began; where that is gone, it is written again as a whole.
#ifndef EVENTS_SINK_H
#define EVENTS_SINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "options/options.h"

enum events_sink_kind {
    EVENTS_SINK_NONE,
    EVENTS_SINK_FILE, // a file, a pipe or a device
    EVENTS_SINK_STDOUT,
    EVENTS_SINK_UNIX,
    EVENTS_SINK_TAIL,
};

/// Whole lines.
struct events_lines {
    char *bytes;
    size_t length;
};

struct events_sink {
    enum events_sink_kind kind;
    const char *path; // of a file or a socket, as it is told; borrowed
    int fd;           // -1 = not open: it is tried again at retry_ns
    // Under the lock.
    size_t room; // of lines
    struct events_lines pending;
    uint64_t lost;      // lines that found no room
    uint64_t lost_told; // of them
    // The thread's own.
    struct events_lines writing;
    size_t written;     // of writing
    bool blocked;       // there is more to write than the sink takes at once
    bool troubled;      // the sink takes no lines, which has been told
    uint64_t lost_then; // when the trouble began
    uint64_t retry_ns;  // after an error: when it is tried again
};

/// Opens what --events names. inherited: see events_open. Zeroed the sink is none.
/// - Returns 0, or -errno with failure filled in.
int events_sink_open(struct events_sink *sink, const struct options *options, int inherited,
                     struct failure *failure);

/// The descriptor of a file that is open; -1 = none.
int events_sink_file(const struct events_sink *sink);

/// Makes a sink of a client, whose descriptor is owned then. Returns 0 or -ENOMEM.
int events_sink_client(struct events_sink *sink, int fd);

void events_sink_close(struct events_sink *sink);

/// Adds a line, or counts that there was no room. Returns whether there was.
bool events_sink_put(struct events_sink *sink, const char *line, size_t length);

/// Writes what can be written without waiting. lock: of pending and lost.
void events_sink_flush(struct events_sink *sink, pthread_mutex_t *lock, uint64_t now_ns);

/// Opens a file anew.
void events_sink_rotate(struct events_sink *sink);

/// Checks whether the other end is still there. Of a client that is not, and of one that could not
/// be written to, the fd is -1 then.
void events_sink_look(struct events_sink *sink, uint64_t now_ns);

/// Events to poll the fd for.
short events_sink_events(const struct events_sink *sink);

/// Lines that were put in and not written.
uint64_t events_sink_left(const struct events_sink *sink);

#endif
