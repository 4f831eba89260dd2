// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close connect newfstatat openat poll pread64 recvfrom sendto socket write
#include "events/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/counts.h"
#include "privilege/path.h"

enum {
    // Size of each of the two buffers of a sink, in bytes: for pending lines, and for lines that
    // are being written.
    ROOM = 1 << 20,
    ROOM_TAIL = 1 << 18, // size of each of a client's two buffers, in bytes
    FILE_MODE = 0640,
};

#define RETRY_NS UINT64_C(1000000000)

static const char unix_prefix[] = "unix:";

/// Allocates a sink's two buffers. Returns 0 or -ENOMEM; in both cases events_sink_close frees the
/// sink.
/// - room: size of each buffer in bytes.
static int make_room(struct events_sink *sink, size_t room) {
    sink->room = room;
    sink->pending.bytes = malloc(room);
    sink->writing.bytes = malloc(room);
    return sink->pending.bytes && sink->writing.bytes ? 0 : -ENOMEM;
}

/// Adds a line end to a file that ends within a line, because a killed firewall may have written a
/// part of a line.
static void end_last_line(int folder, const char *name, int fd) {
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat found;
    char last = '\n';

    if (file < 0)
        return;
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0 &&
        pread(file, &last, 1, found.st_size - 1) == 1 && last != '\n')
        (void)!write(fd, "\n", 1); // an error is reported when a line is written
    close(file);
}

/// Opens or creates a file with the rights of the firewall's user. Does not follow a link that
/// other users could have created.
/// - Returns the descriptor or -errno.
static int open_file(const char *path) {
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const char *name;
    const int folder = privilege_path_folder(path, &name);
    int fd;

    if (folder < 0)
        return folder;
    fd = openat(folder, name, flags | O_NOFOLLOW, FILE_MODE);
    if (fd < 0)
        fd = -errno;
    else
        end_last_line(folder, name, fd);
    close(folder);
    return fd;
}

/// Returns the text for an error of a sink's file or socket.
static const char *reason(int error) {
    return error == ELOOP ? "it is a link, or others could redirect it by one" : strerror(error);
}

/// Connects to a Unix socket. Returns the descriptor or -errno.
static int open_socket(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd, error;

    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

/// Opens a file or socket again. Returns the descriptor or -errno.
static int reopen(const struct events_sink *sink) {
    return sink->kind == EVENTS_SINK_UNIX ? open_socket(sink->path) : open_file(sink->path);
}

/// Logs that a sink accepts no events or loses events, once until it accepts events again. Logs
/// nothing for a client.
/// - what: reason.
static void begin_trouble(struct events_sink *sink, const char *what) {
    if (sink->troubled)
        return;
    sink->troubled = true;
    if (sink->kind != EVENTS_SINK_TAIL)
        log_warn("events: %s: %s: events are kept as far as there is room, then counted",
                 sink->path, what);
}

static void end_trouble(struct events_sink *sink, uint64_t lost) {
    if (!sink->troubled)
        return;
    sink->troubled = false;
    if (sink->kind != EVENTS_SINK_TAIL)
        log_warn("events: %s takes events again: %" PRIu64 " were lost", sink->path,
                 lost - sink->lost_then);
    sink->lost_then = lost;
}

int events_sink_open(struct events_sink *sink, const struct options *options, int inherited,
                     struct failure *failure) {
    const char *where = options->events;
    const bool is_stdout = strcmp(where, "-") == 0;
    const bool is_unix = strncmp(where, unix_prefix, sizeof unix_prefix - 1) == 0;
    int result;

    *sink = (struct events_sink){
        .kind = is_stdout ? EVENTS_SINK_STDOUT
                : is_unix ? EVENTS_SINK_UNIX
                          : EVENTS_SINK_FILE,
        .path = is_stdout ? "stdout"
                : is_unix ? where + sizeof unix_prefix - 1
                          : where,
        .fd = inherited,
        .former = -1,
    };
    if (is_stdout && inherited >= 0)
        close(inherited);
    if (is_stdout)
        sink->fd = STDOUT_FILENO;
    if (sink->fd < 0) {
        sink->fd = reopen(sink);
        // A reader of the socket or pipe may come later.
        if (sink->fd < 0 && sink->kind == EVENTS_SINK_FILE && sink->fd != -ENXIO) {
            failure_set(
                failure, LOG_EXIT_USAGE,
                "--events %s: %s: name a file that the firewall's user (--user) can write, in a "
                "folder that is there",
                sink->path, reason(-sink->fd));
            return sink->fd;
        }
        if (sink->fd < 0) {
            begin_trouble(sink, reason(-sink->fd));
            sink->fd = -1;
        }
    }
    result = make_room(sink, ROOM);
    if (result < 0) {
        failure_set_start(failure, "malloc", -result);
        events_sink_close(sink);
    }
    return result;
}

int events_sink_file(const struct events_sink *sink) {
    return sink->kind == EVENTS_SINK_FILE ? sink->fd : -1;
}

int events_sink_client(struct events_sink *sink, int fd) {
    *sink = (struct events_sink){.kind = EVENTS_SINK_TAIL, .path = "tail", .fd = -1, .former = -1};
    if (make_room(sink, ROOM_TAIL) < 0) {
        events_sink_close(sink);
        return -ENOMEM;
    }
    sink->fd = fd;
    return 0;
}

/// Closes the descriptor. A file's descriptor becomes `former` instead, if there is none yet, and
/// is closed later.
static void close_fd(struct events_sink *sink) {
    if (sink->kind == EVENTS_SINK_FILE && sink->former < 0)
        sink->former = sink->fd;
    else if (sink->fd >= 0 && sink->kind != EVENTS_SINK_STDOUT)
        close(sink->fd);
    sink->fd = -1;
}

void events_sink_former_close(struct events_sink *sink) {
    if (sink->former >= 0)
        close(sink->former);
    sink->former = -1;
}

void events_sink_close(struct events_sink *sink) {
    if (sink->kind == EVENTS_SINK_NONE)
        return;
    close_fd(sink);
    events_sink_former_close(sink);
    free(sink->pending.bytes);
    free(sink->writing.bytes);
    *sink = (struct events_sink){0};
}

bool events_sink_append(struct events_sink *sink, const char *line, size_t length) {
    struct events_lines *pending = &sink->pending;

    if (length > sink->room - pending->length) {
        sink->lost++;
        return false;
    }
    memcpy(pending->bytes + pending->length, line, length);
    pending->length += length;
    return true;
}

/// Returns the offset in `writing` of the first line that is not completely written.
static size_t line_start(const struct events_sink *sink) {
    const char *end = memrchr(sink->writing.bytes, '\n', sink->written);

    return end ? (size_t)(end - sink->writing.bytes) + 1 : 0;
}

/// Resets `written` to the start of the partly written line, so that the line is written again.
static void again(struct events_sink *sink) { sink->written = line_start(sink); }

/// Logs an error of a sink, and sets the time of the next attempt. Closes a connection or a broken
/// pipe, but no file.
static void fail(struct events_sink *sink, int error, uint64_t now_ns) {
    begin_trouble(sink, reason(error));
    sink->retry_ns = now_ns + RETRY_NS;
    // A file stays open until its disk has space; connections and broken pipes are closed.
    if (sink->kind == EVENTS_SINK_UNIX || sink->kind == EVENTS_SINK_TAIL || error == EPIPE) {
        close_fd(sink);
        again(sink);
    }
}

/// Returns the number of bytes of the next complete lines, as many as a writable pipe accepts at
/// once; or of a single longer line, whose write may block the thread.
static size_t portion(const struct events_sink *sink) {
    const char *from = sink->writing.bytes + sink->written;
    const size_t left = sink->writing.length - sink->written;
    const char *end;

    if (left <= PIPE_BUF)
        return left;
    end = memrchr(from, '\n', PIPE_BUF);
    if (!end)
        end = memchr(from, '\n', left);
    return (size_t)(end - from) + 1;
}

/// Writes complete lines to stdout, where other threads print reports under the same lock. A partly
/// written line is ended and begun again, because a report may have followed.
static ssize_t write_stdout(struct events_sink *sink) {
    struct pollfd out = {.fd = sink->fd, .events = POLLOUT};
    ssize_t written = -1;

    if (poll(&out, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    flockfile(stdout);
    if (line_start(sink) == sink->written || write(sink->fd, "\n", 1) == 1) {
        again(sink);
        written = write(sink->fd, sink->writing.bytes + sink->written, portion(sink));
    }
    funlockfile(stdout);
    return written;
}

static ssize_t write_some(struct events_sink *sink) {
    const char *from = sink->writing.bytes + sink->written;
    const size_t left = sink->writing.length - sink->written;

    switch (sink->kind) {
    case EVENTS_SINK_STDOUT:
        return write_stdout(sink);
    case EVENTS_SINK_UNIX:
    case EVENTS_SINK_TAIL:
        return send(sink->fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    default:
        return write(sink->fd, from, left);
    }
}

/// Counts the lines that were written since an offset, except for lines to clients.
static void count(const struct events_sink *sink, size_t from) {
    uint64_t lines = 0;

    if (sink->kind == EVENTS_SINK_TAIL)
        return;
    for (size_t i = from; i < sink->written; i++)
        lines += sink->writing.bytes[i] == '\n';
    counts_add(COUNT_EVENTS_WRITTEN, lines);
}

/// Opens a sink that is not open, or whose file was deleted. Returns true if it can be written to.
static bool is_open(struct events_sink *sink, uint64_t now_ns) {
    struct stat found;
    int fd;

    if (sink->kind == EVENTS_SINK_TAIL || sink->kind == EVENTS_SINK_STDOUT)
        return sink->fd >= 0;
    if (sink->kind == EVENTS_SINK_FILE && sink->fd >= 0 && fstat(sink->fd, &found) == 0 &&
        S_ISREG(found.st_mode) && found.st_nlink == 0) {
        close_fd(sink); // deleted: no program can open the file any more
        again(sink);
    }
    if (sink->fd >= 0)
        return true;
    fd = reopen(sink);
    if (fd < 0)
        fail(sink, -fd, now_ns);
    else
        sink->fd = fd;
    return sink->fd >= 0;
}

/// Swaps in the pending lines if all earlier lines have been written.
/// - Returns true if there is something to write.
static bool swap_in(struct events_sink *sink, pthread_mutex_t *lock) {
    const struct events_lines written = sink->writing;

    if (sink->written < sink->writing.length)
        return true;
    pthread_mutex_lock(lock);
    sink->writing = sink->pending;
    sink->pending = (struct events_lines){.bytes = written.bytes};
    pthread_mutex_unlock(lock);
    sink->written = 0;
    return sink->writing.length > 0;
}

void events_sink_flush(struct events_sink *sink, pthread_mutex_t *lock, uint64_t now_ns) {
    uint64_t lost;

    sink->blocked = false;
    while (now_ns >= sink->retry_ns && swap_in(sink, lock) && is_open(sink, now_ns)) {
        const size_t from = sink->written;
        const ssize_t written = write_some(sink);

        if (written < 0) {
            sink->blocked = errno == EAGAIN;
            if (errno == EINTR)
                continue;
            if (!sink->blocked)
                fail(sink, errno, now_ns);
            break;
        }
        sink->written += (size_t)written;
        count(sink, from);
    }
    pthread_mutex_lock(lock);
    lost = sink->lost;
    pthread_mutex_unlock(lock);
    if (lost > sink->lost_then)
        begin_trouble(sink, "it takes them too slowly");
    if (sink->written == sink->writing.length && sink->fd >= 0)
        end_trouble(sink, lost);
}

void events_sink_rotate(struct events_sink *sink) {
    int fd;

    if (sink->kind != EVENTS_SINK_FILE)
        return;
    fd = open_file(sink->path);
    if (fd < 0) {
        log_warn("events: %s: %s: it could not be reopened, the old file stays in use", sink->path,
                 reason(-fd));
        return;
    }
    close_fd(sink);
    again(sink);
    sink->fd = fd;
    sink->retry_ns = 0;
}

void events_sink_look(struct events_sink *sink, uint64_t now_ns) {
    char said[256];
    ssize_t got;

    if (sink->fd < 0 || (sink->kind != EVENTS_SINK_UNIX && sink->kind != EVENTS_SINK_TAIL))
        return;
    // Received bytes are ignored.
    got = recv(sink->fd, said, sizeof said, MSG_DONTWAIT);
    if (got == 0)
        fail(sink, EPIPE, now_ns);
    else if (got < 0 && errno != EAGAIN && errno != EINTR)
        fail(sink, errno, now_ns);
}

short events_sink_events(const struct events_sink *sink) {
    const bool is_socket = sink->kind == EVENTS_SINK_UNIX || sink->kind == EVENTS_SINK_TAIL;

    return (short)((is_socket ? POLLIN : 0) | (sink->blocked ? POLLOUT : 0));
}

uint64_t events_sink_left(const struct events_sink *sink) {
    uint64_t lines = 0;

    for (size_t i = sink->written; i < sink->writing.length; i++)
        lines += sink->writing.bytes[i] == '\n';
    for (size_t i = 0; i < sink->pending.length; i++)
        lines += sink->pending.bytes[i] == '\n';
    return lines;
}
