// SPDX-License-Identifier: GPL-2.0-or-later
// Sinks of events: a file, stdout, a Unix socket, or a client that follows. A sink can block only
// the events thread. Lines without room are counted, and a sink's change of state is reported once.
//
// Theory of operation: lines are added to `pending` under the lock of events. When the thread has
// written `writing`, it swaps the two, and writes without the lock. The rest of a partly written
// line is written to the same file or connection; if that is closed, the complete line is written
// again.
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

/// Buffer of complete lines.
struct events_lines {
    char *bytes;
    size_t length;
};

struct events_sink {
    enum events_sink_kind kind;
    const char *path; // path of the file or socket; for stdout and clients, a name for messages
    int fd;           // descriptor; -1 = not open: the next attempt is at retry_ns
    // Descriptor of the former file, which another thread may be duplicating (events_fd); -1 =
    // none.
    int former;
    // The following fields are guarded by the lock.
    size_t room; // size of each of the two buffers of lines, in bytes
    struct events_lines pending;
    // Number of lost lines; includes events lost in the rings if their report had no room.
    uint64_t lost;
    uint64_t lost_told; // part of lost that an event has already reported
    // State that only the events thread uses.
    struct events_lines writing;
    size_t written; // number of bytes in writing that have been written
    bool blocked;   // true if the sink accepted no more lines at the last attempt
    // True if the sink accepts no lines or has lost lines, and this has been logged (not for a
    // client).
    bool troubled;
    // Number of lost lines when the sink was last without trouble. A higher number means new
    // losses.
    uint64_t lost_then;
    uint64_t retry_ns; // time of the next attempt to write after an error
};

/// Opens the destination of --events. A zeroed struct means that there is no sink.
/// - inherited: descriptor of the file from the old firewall, owned by *sink from now on; -1 =
///   none.
/// - Returns 0, or -errno with failure filled in.
int events_sink_open(struct events_sink *sink, const struct options *options, int inherited,
                     struct failure *failure);

/// Returns the descriptor of the sink's file; -1 if the sink is no file, or is not open.
int events_sink_file(const struct events_sink *sink);

/// Creates a sink for a client. The sink owns the descriptor on success. Returns 0 or -ENOMEM.
int events_sink_client(struct events_sink *sink, int fd);

void events_sink_close(struct events_sink *sink);

/// Adds a line, or counts it as lost. Returns true if there was room.
bool events_sink_append(struct events_sink *sink, const char *line, size_t length);

/// Writes lines until the sink accepts no more at once. Only a disk, or a long line on stdout, may
/// block the thread.
/// - lock: guards pending and lost.
void events_sink_flush(struct events_sink *sink, pthread_mutex_t *lock, uint64_t now_ns);

/// Reopens the sink's file, which may have been renamed. If that fails, the old file stays in use.
void events_sink_rotate(struct events_sink *sink);

/// Closes the descriptor of the former file. Must be called under the lock, when no other thread
/// can know the descriptor any more.
void events_sink_former_close(struct events_sink *sink);

/// Checks whether a connection is closed. Afterwards the fd of a client whose connection is closed
/// or broken is -1.
void events_sink_look(struct events_sink *sink, uint64_t now_ns);

/// Returns the poll flags for the sink's fd.
short events_sink_events(const struct events_sink *sink);

/// Returns the number of lines that were added and have not been written.
uint64_t events_sink_left(const struct events_sink *sink);

#endif
